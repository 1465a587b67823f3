"""Call the SQL functions of a store like a client in another language: with JSON and named arguments."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row

from tests.postgres.stores import Place


class Functions:
    """A session that only calls functions."""

    def __init__(self, connection: psycopg.Connection[DictRow], schema: str) -> None:
        self.connection = connection
        self._schema = schema

    def named(self, name: str) -> str:
        """Return the qualified name of a function."""
        return f"{self._schema}.{name}"

    def rows(self, name: str, *values: object, **options: object) -> list[DictRow]:
        """Return the rows of a function call."""
        given = ["%s"] * len(values) + [f"{option} => %({option})s" for option in options]
        numbered = {f"v{number}": value for number, value in enumerate(values)}
        given[: len(values)] = [f"%({name})s" for name in numbered]
        text = f"select * from {self._schema}.{name}({', '.join(given)})"
        return self.connection.execute(text.encode(), {**numbered, **options}).fetchall()

    def value(self, name: str, *values: object, **options: object) -> Any:
        """Return the single value of a function call."""
        ((value,),) = (row.values() for row in self.rows(name, *values, **options))
        return value

    def enqueue(self, *jobs: Mapping[str, Any]) -> list[DictRow]:
        return self.rows("enqueue_many_v1", json.dumps(jobs))

    def settle(self, *settlements: Mapping[str, Any]) -> list[bool]:
        return [row["landed"] for row in self.rows("settle_v1", json.dumps(settlements))]


@contextmanager
def functions_of(place: Place, options: Sequence[str] = ()) -> Iterator[Functions]:
    """Yield the functions of a store, in a session with these settings."""
    settings = " ".join(f"-c {each}" for each in options)
    with psycopg.connect(place.server, options=settings, autocommit=True, row_factory=dict_row) as connection:
        yield Functions(connection, place.schema)


def hold_of(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return id, fence and token of a claim."""
    return {name: claim[name] for name in ("id", "fence", "token")}
