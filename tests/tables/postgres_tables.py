"""Helpers to create a user's table on PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from tenure.backends.tables.postgres import PostgresTable, open_table
from tenure.core.table.options import build_table_spec
from tests.postgres.stores import Place, new_place


@contextmanager
def new_schema(server: str) -> Iterator[Place]:
    """Yield a new schema; `execute` replaces S by its name."""
    with new_place(server) as place:
        place.execute(f"create schema {place.schema}")
        yield place


@contextmanager
def opened(place: Place, name: str = "orders", *, at: str | None = None, **options: Any) -> Iterator[PostgresTable]:
    """Open a table of the schema with separate connections."""
    url = at or place.server
    table = open_table(url, url, build_table_spec(name, schema=place.schema, **options))
    try:
        yield table
    finally:
        table.close()


@contextmanager
def as_role(place: Place, rights: str) -> Iterator[str]:
    """Yield the URL of a role with only these rights; R stands for the role."""
    role = f"role_{uuid4().hex}"
    place.execute(f"create role {role} login; {rights.replace(' S ', f' {place.schema} ').replace(' R', f' {role}')}")
    try:
        yield f"{place.server}{'&' if '?' in place.server else '?'}user={role}"
    finally:
        place.execute(f"drop owned by {role}; drop role {role}")
