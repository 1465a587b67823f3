"""Load the SQL statements for a schema, with numbered parameters.

Every statement returns one JSON text or nothing, so all results are parsed alike.
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
"""Forms of a request for jobs. Each form has its own statements, whose plan scans only the requested lanes."""

NAMED_VALUE = re.compile(r"(?<!:):([a-z_]+)")
"""A named value of a statement, such as `:limit`; `::` is a cast."""

Statements = Mapping[str, Mapping[str, "Statement"]]
"""Statements by operation and statement name."""


class Statement(NamedTuple):
    """The text, the names of its values in parameter order, and the name for preparing it.

    The name is derived from the text, because a pooler may hand a session to several clients. A statement without a
    name is never prepared.
    """

    text: bytes
    names: tuple[str, ...]
    name: bytes


def number_values(text: str) -> Statement:
    """Replace the named values of a statement by numbered parameters."""
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
    """Return the request form that scans only the requested lanes."""
    if queues is None:
        return ALL
    return OF_QUEUES if types is None else OF_QUEUES_AND_TYPES


@cache
def statements_in(schema: str, form: str = ALL) -> Statements:
    """Return all statements for a schema and a request form."""
    return {
        operation: {name: number_values(text) for name, text in texts.items()}
        for operation, texts in sql_in(schema, form).items()
    }


@cache
def sql_in(schema: str, form: str = ALL) -> Mapping[str, Mapping[str, str]]:
    """Return the SQL of all statements, by operation."""
    fragments = fragments_in(schema, form)
    return {
        operation: {name: text.format(**fragments) for name, text in raw_statements(__package__, operation).items()}
        for operation in operation_names()
    }


@cache
def fragments_in(schema: str, form: str = ALL) -> Mapping[str, str]:
    """Return the SQL fragments shared by the statements, by name."""
    fragments = {"schema": quote_name(schema), "history_kept": str(HISTORY_KEPT)}
    for name, text in raw_statements(__package__, "fragments").items():
        fragments["lanes" if name == f"lanes {form}" else name] = text.format(**fragments)
    return fragments


def operation_names() -> list[str]:
    """Return the names of the operations that have an `.sql` file."""
    names = (each.name for each in files(__package__).iterdir())
    return sorted({name.removesuffix(".sql") for name in names if name.endswith(".sql")} - SHARED_FILES)


def quote_name(name: str) -> str:
    """Quote a schema name, which `address` has validated."""
    return f'"{name}"'
