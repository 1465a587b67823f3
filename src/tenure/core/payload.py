"""Encode payloads and results as JSON text.

A store keeps the text unchanged and never parses it, so every store returns the same value. Values that some store
would change or reject raise `InvalidPayload`: NaN and infinities, NUL, lone surrogates, keys that are not strings,
integers that another Python process cannot read.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from tenure.core import checks
from tenure.errors import InvalidPayload

MAX_JSON_BYTES = 256 * 1024
"""Size limit of a payload or result, in bytes of compact UTF-8."""

MAX_DEPTH = 100
"""Limit of nested lists and objects, within that of every JSON parser."""

MAX_DIGITS = 4_300
"""Limit of the digits of an integer: by default, Python reads no longer ones, whatever the limit of this process."""

MAX_PARTS_SEARCHED = 10_000
"""Number of parts of a value that are searched for the invalid one."""

_FIRST_LONG_INTEGER = 10**MAX_DIGITS
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()
_WHITESPACE = " \t\n\r"
_JSON_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]')


def encode_payload(payload: Mapping[str, Any]) -> str:
    """Encode a payload: a JSON object of at most 256 KiB."""
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
    """Encode a result; return None if it exceeds the size limit."""
    if result is None:
        return "null"
    text = encode(result, "result")
    return text if len(text.encode()) <= MAX_JSON_BYTES else None


def decode(text: str) -> Any:
    # Like `json.loads`, whose search for surrounding whitespace takes longer than parsing a short text.
    text = text.strip(_WHITESPACE)
    value, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def decode_or_text(text: str) -> Any:
    """Decode a value. A text that Python cannot decode, such as very deep JSON, is returned unchanged."""
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return text


def decode_response(content: bytes, levels: int) -> Any:
    """Decode the response of a server: JSON, with payloads and results that many levels deep in its lists.

    A payload or result that Python cannot decode is returned as text, and costs the rest nothing.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return _decode_parts(content.decode(errors="surrogateescape"), levels)


def unreadable_reason(payload: object) -> str:
    """Return why a stored payload is not a dict."""
    try:
        decode(str(payload))
    except (ValueError, RecursionError) as exc:
        return str(exc)
    return "it is not a JSON object"


def encode(value: object, subject: str) -> str:
    """Encode a value as compact JSON; raise `InvalidPayload`, which names the invalid part."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidPayload(f"the {subject} has a lone surrogate, which is not valid text: {exc.reason}") from None
    except (TypeError, ValueError, RecursionError) as exc:
        # Without end in a value that contains itself.
        _reject_long_integers(islice(_named_parts(value, subject), MAX_PARTS_SEARCHED))
        raise InvalidPayload(f"the {subject} is not JSON: {exc}{_locate_invalid(value, subject)}") from None
    _reject_invalid_parts(value, subject, may_have_long_integers=len(text) > MAX_DIGITS)
    # Search the encoded text first, which is fast. The second test excludes a string that spells out the escape.
    if "\\u0000" in text and "\0" in "".join(_strings(value)):
        raise InvalidPayload(f"the {subject} has a NUL character, which not every store can keep")
    return text


def _decode_parts(text: str, levels: int) -> Any:
    """Decode a value; if Python cannot, decode the elements of a list one by one, down to this number of levels."""
    value = decode_or_text(text)
    if value is not text or not levels or not text.startswith("["):
        return value
    return [_decode_parts(element, levels - 1) for element in _split_list(text)]


def _split_list(text: str) -> Iterator[str]:
    """Yield the texts of the elements of a JSON list."""
    start = level = 0
    for mark in _JSON_MARK.finditer(text):
        if mark[0] in {"[", "{"}:
            level += 1
            start = start or mark.end()
        elif mark[0] in {"]", "}"}:
            level -= 1
        if (mark[0] == "," and level == 1) or level == 0:
            yield text[start : mark.start()].strip(_WHITESPACE)
            start = mark.end()


def _reject_invalid_parts(value: object, subject: str, *, may_have_long_integers: bool) -> None:
    for depth, part in _parts(value):
        if depth > MAX_DEPTH:
            raise InvalidPayload(f"the {subject} is nested more than {MAX_DEPTH} deep")
        if isinstance(part, dict):
            for key in part:
                if not isinstance(key, str):
                    raise InvalidPayload(
                        f"the {subject} has the key {key!r}; the keys of a JSON object must be strings"
                    )
        elif may_have_long_integers and isinstance(part, int) and abs(part) >= _FIRST_LONG_INTEGER:
            _reject_long_integers(_named_parts(value, subject))


def _reject_long_integers(named_parts: Iterable[tuple[str, Any]]) -> None:
    for name, part in named_parts:
        if isinstance(part, int) and abs(part) >= _FIRST_LONG_INTEGER:
            raise InvalidPayload(
                f"{name} is an integer of more than {MAX_DIGITS:,} digits, which Python does not read by default; "
                "pass it as a string"
            )


def _parts(value: object) -> Iterator[tuple[int, Any]]:
    """Yield the value and all nested values, with their depths."""
    pending = [(0, value)]
    while pending:
        depth, part = pending.pop()
        yield depth, part
        if isinstance(part, dict):
            pending.extend((depth + 1, each) for each in part.values())
        elif isinstance(part, list | tuple):
            pending.extend((depth + 1, each) for each in part)


def _named_parts(value: object, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the value and all nested values, with their paths."""
    pending = [(name, value)]
    while pending:
        name, part = pending.pop()
        yield name, part
        if isinstance(part, dict):
            pending.extend((f"{name}[{key!r}]", each) for key, each in part.items())
        elif isinstance(part, list | tuple):
            pending.extend((f"{name}[{at}]", each) for at, each in enumerate(part))


def _locate_invalid(value: object, subject: str) -> str:
    """Return the path of the first part that is not valid JSON, or an empty string if the search does not find it."""
    for name, part in islice(_named_parts(value, subject), MAX_PARTS_SEARCHED):
        is_valid = part is None or isinstance(part, dict | list | tuple | str | int | float)
        if not is_valid or (isinstance(part, float) and not math.isfinite(part)):
            return f"; see {name}, which is {checks.short_repr(part)}"
    return ""


def _strings(value: object) -> Iterator[str]:
    for _, part in _parts(value):
        if isinstance(part, dict):
            yield from part
        elif isinstance(part, str):
            yield part
