"""The scripts of the store: one file an operation, and the parts that they share.

The head of a file says which parts it needs and which keys it uses; in it they are `key.name`, and it is called with
them. A part stands before whatever needs it, once.

A job is an array of the fields of its row: with names it would take twice as long to read. In the files they have
names, `job.state`; what is sent has their numbers.
"""

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

FOLDER = files(__package__)
HEAD_LINE = re.compile(r"^-- (parts|keys): (.*)$", re.MULTILINE)
FIELDS_LINE = re.compile(r"^-- fields: (.*(?:\n--  .*)*)$", re.MULTILINE)
JOB_FIELD = re.compile(r"\b(job|one|other)\.(\w+)\b")


@dataclass(frozen=True, slots=True)
class Script:
    """What is sent: its text, and the short names of the keys that it is called with."""

    name: str
    keys: tuple[str, ...]
    text: str = field(repr=False)
    sha: str = field(repr=False)


@cache
def script(name: str) -> Script:
    """Return the script of an operation."""
    order = _files_in_order(name)
    keys = tuple(dict.fromkeys(key for file in order for key in _head_names(file, "keys")))
    named = ", ".join(f"{key} = KEYS[{number}]" for number, key in enumerate(keys, start=1))
    text = "\n".join([f"local key = {{ {named} }}", *(_number_fields(_read_file(file)) for file in order)])
    return Script(name, keys, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _files_in_order(file: str) -> list[str]:
    """Return the file and all parts that it needs, each after those that it needs itself."""
    before = [part for needed in _head_names(file, "parts") for part in _files_in_order(f"parts/{needed}")]
    return list(dict.fromkeys([*before, file]))


def _head_names(file: str, kind: str) -> list[str]:
    return [name for found, names in HEAD_LINE.findall(_read_file(file)) if found == kind for name in names.split()]


def _number_fields(text: str) -> str:
    """Return a text with numbers in place of the names of fields."""
    numbers = field_numbers()
    return JOB_FIELD.sub(lambda found: f"{found[1]}[{numbers[found[2]]}]" if found[2] in numbers else found[0], text)


@cache
def field_numbers() -> dict[str, int]:
    """Return the fields of a row, with their numbers."""
    (names,) = FIELDS_LINE.findall(_read_file("parts/rows"))
    return {name: number for number, name in enumerate(names.replace("--", "").split(), start=1)}


@cache
def _read_file(file: str) -> str:
    return FOLDER.joinpath(f"{file}.lua").read_text(encoding="utf-8")
