"""Something that is protected, and how its protection is taken away."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    name: str
    module: str
    text: str
    instead: str
