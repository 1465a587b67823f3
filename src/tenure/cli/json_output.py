"""What JSON lines contain: the values of the library as plain records, moments in ISO 8601."""

from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from math import isfinite
from typing import Any

from tenure.core.job import Job


def record_of(value: object) -> dict[str, Any]:
    """Return a value of the library as a record."""
    return {name: plain(content) for name, content in _parts(value).items()}


def job_record(job: Job) -> dict[str, Any]:
    """Return a job as a record, with the errors that its history tells."""
    return {**record_of(job), "errors": list(job.errors)}


def moment(value: datetime) -> str:
    """Return a moment as it is shown to programs."""
    return value.isoformat().replace("+00:00", "Z")


def _parts(value: object) -> dict[str, Any]:
    if not is_dataclass(value):
        raise TypeError(f"{value!r} has no fields")
    return {each.name: getattr(value, each.name) for each in fields(value)}


def plain(value: Any) -> Any:
    """Return a value as JSON can have it: what a driver gives for a column, as a text if it is nothing else."""
    if is_dataclass(value) and not isinstance(value, type):
        return record_of(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    is_number = isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value))
    return value if value is None or is_number else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return moment(value)
    is_binary = isinstance(value, bytes | bytearray | memoryview)
    return f"\\x{bytes(value).hex()}" if is_binary else str(value)
