"""Payloads and results as JSON text.

A store keeps the text as it is and never looks inside, so the same value comes back from every one of them.
What some store could not keep, or would change, is refused here: NaN and infinities, NUL, lone surrogates,
keys that are not strings.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tenure.core import checks
from tenure.errors import InvalidPayload

MAX_JSON_BYTES = 256 * 1024
"""Bytes of compact UTF-8 that a payload or a result may have."""

MAX_DEPTH = 100
"""How far lists and objects may stand inside each other, so that every reader can follow."""


MAX_PARTS_SEARCHED = 10_000
"""How many parts of a value are looked at to tell where it is wrong."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()
_WHITESPACE = " \t\n\r"


def encode_payload(payload: Mapping[str, Any]) -> str:
    """Return the text of a payload, which is a JSON object of at most 256 KiB."""
    if not isinstance(payload, Mapping):
        raise InvalidPayload(f"the payload must be a JSON object (a dict), not {checks.short_repr(payload)}")
    text = encode(payload if isinstance(payload, dict) else dict(payload), "payload")
    if (size := len(text.encode())) > MAX_JSON_BYTES:
        raise InvalidPayload(
            f"the payload has {size:,} bytes of JSON; the limit is {MAX_JSON_BYTES:,}. "
            "Store the data elsewhere and pass a reference to it"
        )
    return text


def encode_result(result: object) -> str | None:
    """Return the text of a result, or None if it is too long to be kept."""
    if result is None:
        return "null"
    text = encode(result, "result")
    return text if len(text.encode()) <= MAX_JSON_BYTES else None


def decode(text: str) -> Any:
    # As `json.loads`, which takes longer over looking for space around the text than over a short text itself.
    text = text.strip(_WHITESPACE)
    value, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def encode(value: object, subject: str) -> str:
    """Return compact JSON text, or raise `InvalidPayload` saying what in the value cannot be kept."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidPayload(f"the {subject} has a lone surrogate, which is not valid text: {exc.reason}") from None
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidPayload(f"the {subject} is not JSON: {exc}{_locate_invalid(value, subject)}") from None
    _reject_invalid_parts(value, subject)
    # The escape is looked for in the text first: a string that merely spells it out is rare, and is told apart then.
    if "\\u0000" in text and "\0" in "".join(_strings(value)):
        raise InvalidPayload(f"the {subject} has a NUL character, which not every store can keep")
    return text


def _reject_invalid_parts(value: object, subject: str) -> None:
    for depth, part in _parts(value):
        if depth > MAX_DEPTH:
            raise InvalidPayload(f"the {subject} is nested more than {MAX_DEPTH} deep")
        if isinstance(part, dict):
            for key in part:
                if not isinstance(key, str):
                    raise InvalidPayload(
                        f"the {subject} has the key {key!r}; the keys of a JSON object must be strings"
                    )


def _parts(value: object) -> Iterator[tuple[int, Any]]:
    """Yield the value and everything inside it, each with its depth."""
    pending = [(0, value)]
    while pending:
        depth, part = pending.pop()
        yield depth, part
        if isinstance(part, dict):
            pending.extend((depth + 1, each) for each in part.values())
        elif isinstance(part, list | tuple):
            pending.extend((depth + 1, each) for each in part)


def _locate_invalid(value: object, subject: str) -> str:
    """Return where in the value the first part stands that is no JSON, if it can be told."""
    pending = [(subject, value)]
    for _ in range(MAX_PARTS_SEARCHED):
        if not pending:
            break
        name, part = pending.pop()
        if isinstance(part, dict):
            pending.extend((f"{name}[{key!r}]", each) for key, each in part.items())
        elif isinstance(part, list | tuple):
            pending.extend((f"{name}[{at}]", each) for at, each in enumerate(part))
        elif not isinstance(part, str | int | float | None) or (isinstance(part, float) and not math.isfinite(part)):
            return f"; see {name}, which is {checks.short_repr(part)}"
    return ""


def _strings(value: object) -> Iterator[str]:
    for _, part in _parts(value):
        if isinstance(part, dict):
            yield from part
        elif isinstance(part, str):
            yield part
