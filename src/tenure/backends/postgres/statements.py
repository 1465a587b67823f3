"""Statements as the server takes them: values by number, in a schema of their own.

Every statement answers with one text of JSON, or with nothing. So an answer is read at once, whatever it holds.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple

from tenure.backends.shared.sql_files import raw_statements
from tenure.core.job import HISTORY_KEPT

SHARED_FILES = {"fragments"}

ALL, OF_QUEUES, OF_QUEUES_AND_TYPES = "all", "of queues", "of queues and types"
REQUEST_FORMS = (ALL, OF_QUEUES, OF_QUEUES_AND_TYPES)
"""The ways of asking for jobs. Each has statements of its own, whose plan looks at no more lines than asked for."""

NAMED_VALUE = re.compile(r"(?<!:):([a-z_]+)")
"""A value that a statement names, `:so`; `::` is a cast."""

Statements = Mapping[str, Mapping[str, "Statement"]]
"""By the name of the operation, and what the statement does."""


class Statement(NamedTuple):
    """Its text, and the names of the values in the order of their numbers.

    It is prepared under a name that no other text has: a session may be one that others use in turn. Without a name it
    is never prepared.
    """

    text: bytes
    names: tuple[str, ...]
    name: bytes


def number_values(text: str) -> Statement:
    """Return a statement that names its values as one that numbers them."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return make_statement(NAMED_VALUE.sub(number, text), *names)


def make_statement(text: str, *names: str) -> Statement:
    digest = blake2b(text.encode(), digest_size=12).hexdigest()
    return Statement(text.encode(), names, f"tenure_{digest}".encode())


def make_unprepared(text: str, *names: str) -> Statement:
    return Statement(text.encode(), names, b"")


def request_form(queues: Sequence[str] | None, types: Sequence[str] | None) -> str:
    """Return the form that looks at no more lines than are asked for."""
    if queues is None:
        return ALL
    return OF_QUEUES if types is None else OF_QUEUES_AND_TYPES


@cache
def statements_in(schema: str, form: str = ALL) -> Statements:
    """Return all statements on the tables of a schema, for a way of asking."""
    return {
        operation: {name: number_values(text) for name, text in texts.items()}
        for operation, texts in sql_in(schema, form).items()
    }


@cache
def sql_in(schema: str, form: str = ALL) -> Mapping[str, Mapping[str, str]]:
    """Return the texts of all statements, by operation."""
    fragments = fragments_in(schema, form)
    return {
        operation: {name: text.format(**fragments) for name, text in raw_statements(__package__, operation).items()}
        for operation in operation_names()
    }


@cache
def fragments_in(schema: str, form: str = ALL) -> Mapping[str, str]:
    """Return what the statements share, by the names that they have for it."""
    fragments = {"schema": quote_name(schema), "history_kept": str(HISTORY_KEPT)}
    for name, text in raw_statements(__package__, "fragments").items():
        fragments["lines" if name == f"lines {form}" else name] = text.format(**fragments)
    return fragments


def operation_names() -> list[str]:
    """Return the names of the operations that are written in SQL."""
    names = (each.name for each in files(__package__).iterdir())
    return sorted({name.removesuffix(".sql") for name in names if name.endswith(".sql")} - SHARED_FILES)


def quote_name(name: str) -> str:
    """Return a name as it stands in a statement. It is one that `address` has let in."""
    return f'"{name}"'
