"""A guard: a source text that protects a guarantee, and the text that disables the protection."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    name: str
    module: str
    text: str
    instead: str
