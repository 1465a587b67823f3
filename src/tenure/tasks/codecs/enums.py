"""Members of enumerations, written as their values."""

from enum import Enum, Flag
from typing import Any

from tenure.errors import ConfigurationError
from tenure.tasks.codecs.annotations import spelled
from tenure.tasks.codecs.codec import Codec, unfit
from tenure.tasks.codecs.scalars import SCALARS, scalar


def enumeration(kind: type[Enum]) -> Codec:
    """Return the codec of an enumeration; its values must be JSON or what is written as a string or number."""
    if issubclass(kind, Flag):
        return scalar(kind, lambda member: member.value, kind, frozenset({int}))
    texts = {name: _written(kind, member.value) for name, member in kind.__members__.items()}
    members = {text: kind[name] for name, text in texts.items()}
    written = frozenset(map(type, members))
    if not members or len(members) < len(kind):
        raise ConfigurationError(f"the members of {spelled(kind)} cannot be told apart by their values")

    def encode(value: Any) -> Any:
        if not isinstance(value, kind):
            raise unfit(value, kind)
        return texts[value.name]

    def decode(value: Any) -> Enum:
        if type(value) not in written or value not in members:
            raise unfit(value, kind)
        return members[value]

    return Codec(encode=encode, decode=decode, written=written)


def _written(kind: type[Enum], value: Any) -> Any:
    if type(value) in {bool, int, float, str, type(None)}:
        return value
    if type(value) not in SCALARS:
        raise ConfigurationError(
            f"{spelled(kind)} has the value {value!r}, which cannot be written as JSON; "
            "give its members strings or numbers"
        )
    return SCALARS[type(value)].encode(value)
