"""Schemas with the tables of a store, emptied and used again: to make and to drop one takes longer than most tests."""

from collections import defaultdict
from uuid import uuid4

import psycopg

from tests.servers.postgres import Server

TABLES = ("jobs", "finished", "history", "lanes", "paused", "counts", "workers", "schedules")
PATIENCE = "2s"


class Schemas:
    """Those that are empty, by server."""

    def __init__(self) -> None:
        self._empty: defaultdict[str, list[str]] = defaultdict(list)

    def take(self, server: Server) -> str:
        """Return a schema that is empty, or not there yet."""
        return self._empty[server.url].pop() if self._empty[server.url] else f"tenure_{uuid4().hex}"

    def give_back(self, server: Server, schema: str) -> None:
        """Empty it; or drop it, if somebody is still at it or something is missing."""
        with psycopg.connect(server.url, autocommit=True) as connection:
            try:
                connection.execute(f"set lock_timeout = '{PATIENCE}'".encode())
                connection.execute("; ".join(f"delete from {schema}.{table}" for table in TABLES).encode())
            except psycopg.errors.Error:
                connection.execute("set lock_timeout = 0")
                connection.execute(f"drop schema if exists {schema} cascade".encode())
            else:
                self._empty[server.url].append(schema)
