"""Worker processes on the rows of a table, for tests that kill and suspend them.

    python -m tests.tables.postgres_hands WORK URL SCHEMA MODE

A process prints its claims before it starts the work. The output of a row and its completion are one transaction.
"""

import json
import os
import sys
from typing import Any

import psycopg

from tenure.backends.tables.postgres import PostgresTable, open_table
from tenure.core.table.options import build_table_spec
from tenure.core.table.spec import TableSpec
from tenure.testing.conformance.building import Taken, as_taken, build_completion, request

Connection = psycopg.Connection[Any]

LEASE = 1.0
MODES: dict[str, dict[str, Any]] = {"mapped": {"columns": {"state": "status"}}, "sidecar": {"sidecar": True}}
OUTPUT = "insert into {schema}.invoices (order_id, fence) values (%s, %s)"


def spec_of(schema: str, mode: str) -> TableSpec:
    return build_table_spec("orders", schema=schema, where="true", max_attempts=None, max_crashes=1_000, **MODES[mode])


def claimed(table: PostgresTable, limit: int, lease: float = LEASE) -> list[Taken]:
    asked = request(limit=limit, lease=lease, worker=f"w{os.getpid()}", token=os.urandom(8).hex())
    return [as_taken(job, asked) for job in table.claim(asked).jobs]


def has_worked_on(table: PostgresTable, connection: Connection, schema: str, taken: Taken) -> bool:
    """Write the output of a row and complete the row in one transaction; return whether it landed."""
    with table.join(connection) as joined:
        connection.execute(OUTPUT.format(schema=schema).encode(), [taken.id, taken.job.fence])
        (landed,) = joined.settle([build_completion(taken)])
    if landed:
        connection.commit()
    else:
        connection.rollback()
    return bool(landed)


def drain(table: PostgresTable, connection: Connection, schema: str) -> None:
    """Work on command until no rows are left."""
    table.stats()
    say(["ready"])
    sys.stdin.readline()
    while True:
        taken = claimed(table, limit=5)
        say([each.id for each in taken])
        for each in taken:
            has_worked_on(table, connection, schema, each)
        stats = table.stats()
        if stats.total("due") == stats.total("running") == 0:
            return
        if not taken:
            table.wait(None, None, 1.0)


def wait_to_be_told(table: PostgresTable, connection: Connection, schema: str) -> None:
    """Claim, work on command, and print which settlements landed."""
    taken = claimed(table, limit=5)
    say([each.id for each in taken])
    sys.stdin.readline()
    say([has_worked_on(table, connection, schema, each) for each in taken])


def say(what: list[Any]) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    work, url, schema, mode = sys.argv[1:]
    with psycopg.connect(url) as own:
        {"drain": drain, "wait": wait_to_be_told}[work](open_table(url, url, spec_of(schema, mode)), own, schema)
