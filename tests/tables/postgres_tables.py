"""A table of a user's on PostgreSQL, made by the user's own statements."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from tenure.backends.tables.postgres import PostgresTable, open_table
from tenure.core.table.options import build_table_spec
from tests.postgres.stores import Place, new_place


@contextmanager
def new_schema(server: str) -> Iterator[Place]:
    """Give a schema to make tables in; in what is executed there, S is the schema."""
    with new_place(server) as place:
        place.execute(f"create schema {place.schema}")
        yield place


@contextmanager
def opened(place: Place, name: str = "orders", *, at: str | None = None, **options: Any) -> Iterator[PostgresTable]:
    """Give a table of the schema, with connections of its own."""
    url = at or place.server
    table = open_table(url, url, build_table_spec(name, schema=place.schema, **options))
    try:
        yield table
    finally:
        table.close()


@contextmanager
def as_role(place: Place, rights: str) -> Iterator[str]:
    """Give the URL of a role that has just these rights; in them, R is the role."""
    role = f"role_{uuid4().hex}"
    place.execute(f"create role {role} login; {rights.replace(' S ', f' {place.schema} ').replace(' R', f' {role}')}")
    try:
        yield f"{place.server}{'&' if '?' in place.server else '?'}user={role}"
    finally:
        place.execute(f"drop owned by {role}; drop role {role}")
