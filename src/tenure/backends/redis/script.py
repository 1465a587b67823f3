"""Build the Lua scripts of the store: one file per operation, and shared parts.

The head of a file lists the parts that the file needs and the keys that the file uses. Lua code names a key as
`key.name`; the request passes the keys. The loader includes every part once, before the files that need the part.

In Lua, a job is an array of the fields of its row: a table with named fields takes twice as long to read. The files use
names, as in `job.state`; the loader replaces the names by numbers.
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
    """A complete script, and the short names of its keys."""

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
    """Return a file and all the parts it needs, every part before the files that use the part."""
    before = [part for needed in _head_names(file, "parts") for part in _files_in_order(f"parts/{needed}")]
    return list(dict.fromkeys([*before, file]))


def _head_names(file: str, kind: str) -> list[str]:
    return [name for found, names in HEAD_LINE.findall(_read_file(file)) if found == kind for name in names.split()]


def _number_fields(text: str) -> str:
    """Replace the field names in Lua code by field numbers."""
    numbers = field_numbers()
    return JOB_FIELD.sub(lambda found: f"{found[1]}[{numbers[found[2]]}]" if found[2] in numbers else found[0], text)


@cache
def field_numbers() -> dict[str, int]:
    """Return the number of every field of a row."""
    (names,) = FIELDS_LINE.findall(_read_file("parts/rows"))
    return {name: number for number, name in enumerate(names.replace("--", "").split(), start=1)}


@cache
def _read_file(file: str) -> str:
    return FOLDER.joinpath(f"{file}.lua").read_text(encoding="utf-8")
