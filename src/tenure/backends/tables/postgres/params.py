"""Encode the user's values for conditions and columns as text; the server infers the types from the context."""

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from tenure.backends.postgres.encoding import Value
from tenure.core import checks
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError

LIST_TYPES = (list, tuple, set, frozenset)

ENCODERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
    (str, str.__str__),
    (bool, lambda value: "true" if value else "false"),
    (int, int.__repr__),
    (float, float.__repr__),
    ((datetime, date, time), lambda value: str(value.isoformat())),
    (timedelta, lambda value: f"{value // timedelta(microseconds=1)} microseconds"),
    ((Decimal, UUID), str),
    ((bytes, bytearray, memoryview), lambda value: f"\\x{bytes(value).hex()}"),
)
"""Encoders by Python type; the first match applies."""


def param_values(spec: TableSpec) -> dict[str, Value]:
    """Return the values of `params` for the conditions."""
    return {f"param_{name}": encode(f"params[{name!r}]", value) for name, value in spec.params.items()}


def retry_values(spec: TableSpec) -> dict[str, Value]:
    """Return the values of `on_retry`."""
    return _numbered_values("retry", {f"on_retry[{name!r}]": value for name, value in spec.on_retry.items()})


def encode(option: str, value: Any) -> str | None:
    """Encode a value as text for the server; None is null."""
    if value is None:
        return None
    if isinstance(value, LIST_TYPES):
        return "{" + ",".join(_encode_element(option, each) for each in value) + "}"
    if isinstance(value, str) and value:
        return checks.storable_text(option, str.__str__(value))
    for kind, text in ENCODERS:
        if isinstance(value, kind):
            return text(value)
    raise ConfigurationError(
        f"{option} must be text, a number, a date or time, a UUID, bytes, or a list of these, not "
        f"{checks.short_repr(value)}"
    )


def _encode_element(option: str, value: Any) -> str:
    text = encode(option, value)
    if text is None:
        return "null"
    if isinstance(value, LIST_TYPES):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _numbered_values(prefix: str, values: Mapping[str, Any]) -> dict[str, Value]:
    return {f"{prefix}_{number}": encode(name, value) for number, (name, value) in enumerate(values.items(), start=1)}
