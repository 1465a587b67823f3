"""Codecs of enumerations, whose members are written as their values.

Python's patch releases handle unusual values of Enum and Flag differently. These codecs accept and reject the same
values on every supported Python.
"""

from enum import KEEP, Enum, Flag
from functools import reduce
from operator import or_
from typing import Any

from tenure.errors import ConfigurationError
from tenure.tasks.codecs.annotations import format_annotation
from tenure.tasks.codecs.codec import Codec, value_mismatch
from tenure.tasks.codecs.scalars import SCALARS, scalar


def enumeration(kind: type[Enum]) -> Codec:
    """Return the codec of an enumeration. Its values must be JSON scalars, or types written as a string or number."""
    if issubclass(kind, Flag):
        return _flag(kind)
    texts = {name: _json_value(member) for name, member in kind.__members__.items()}
    members = {text: kind[name] for name, text in texts.items()}
    written = frozenset(map(type, members))
    if not members or len(members) < len(kind):
        raise ConfigurationError(f"the members of {format_annotation(kind)} do not have distinct JSON values")

    def encode(value: Any) -> Any:
        if not isinstance(value, kind):
            raise value_mismatch(value, kind)
        return texts[value.name]

    def decode(value: Any) -> Enum:
        if type(value) not in written or value not in members:
            raise value_mismatch(value, kind)
        return members[value]

    return Codec(encode=encode, decode=decode, json_types=written)


def _flag(kind: type[Flag]) -> Codec:
    """Return the codec of a flag. Decoding accepts a number only if the resulting flag has exactly this value."""
    # Iteration yields the single-bit members. Python before 3.11.4 drops all unnamed bits of a combination.
    named = reduce(or_, (member.value for member in kind), 0)
    keeps_all: bool = kind._boundary_ is KEEP  # type: ignore[attr-defined]
    for member in kind.__members__.values():
        if member.value & ~named and not keeps_all:
            raise ConfigurationError(
                f"{format_annotation(kind)}.{member.name} has the value {member.value}, with bits that have no "
                "member; add a member for each bit, or use boundary=KEEP"
            )

    def read(value: int) -> Flag:
        flag = kind(value)
        # Python before 3.11.4 drops unnamed bits; later releases invert a negative number.
        if not isinstance(flag, kind) or flag.value != value:
            raise value_mismatch(value, kind)
        return flag

    # Compare values: before Python 3.11.4, two flags with the same unnamed bits are not equal.
    return scalar(kind, lambda flag: flag.value, read, frozenset({int}), lambda read, value: read.value == value.value)


def _json_value(member: Enum) -> Any:
    value = member.value
    if type(value) in {bool, int, float, str, type(None)}:
        return value
    if type(value) not in SCALARS:
        # The message omits the value: before Python 3.11.4, an empty tuple appears as a bare object here.
        raise ConfigurationError(
            f"{format_annotation(type(member))}.{member.name} has a value that cannot be written as JSON; "
            "give its members strings or numbers"
        )
    return SCALARS[type(value)].encode(value)
