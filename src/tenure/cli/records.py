"""What JSON lines contain: the values of the library as plain records, moments in ISO 8601."""

from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from tenure.core.job import Job


def record_of(value: object) -> dict[str, Any]:
    """Return a value of the library as a record."""
    return {name: _plain(content) for name, content in _parts(value).items()}


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


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return record_of(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
