"""Values of the library as JSON records, with timestamps in ISO 8601."""

from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from math import isfinite
from typing import Any

from tenure.core.job import Job


def to_record(value: object) -> dict[str, Any]:
    """Return a dataclass as a record."""
    return {name: to_json_value(content) for name, content in _field_values(value).items()}


def job_record(job: Job) -> dict[str, Any]:
    """Return a job as a record, with the errors from its history."""
    return {**to_record(job), "errors": list(job.errors)}


def format_timestamp(value: datetime) -> str:
    """Format a timestamp as ISO 8601."""
    return value.isoformat().replace("+00:00", "Z")


def _field_values(value: object) -> dict[str, Any]:
    if not is_dataclass(value):
        raise TypeError(f"{value!r} has no fields")
    return {each.name: getattr(value, each.name) for each in fields(value)}


def to_json_value(value: Any) -> Any:
    """Return a value that JSON can hold. A column value of any other type becomes text."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_record(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): to_json_value(each) for name, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    is_number = isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value))
    return value if value is None or is_number else _to_text(value)


def _to_text(value: Any) -> str:
    if isinstance(value, datetime):
        return format_timestamp(value)
    is_binary = isinstance(value, bytes | bytearray | memoryview)
    return f"\\x{bytes(value).hex()}" if is_binary else str(value)
