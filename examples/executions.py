"""A plain SQLite table of executions, with priorities and worker ids, processed in a hand-written loop.

    python examples/executions.py add 20
    python examples/executions.py run              # start as many as you like

The file is `executions.db`, in the working directory. The table belongs to the app; tenure adds the missing columns.
"""

import logging
import os
import sqlite3
import sys
from pathlib import Path

import tenure

FILE = Path("executions.db")
WORKER = f"worker_{os.getpid()}"

log = logging.getLogger("executions")

executions = tenure.Table(
    f"sqlite:///{FILE}",
    "executions",
    columns={
        "state": "status",
        "worker": "worker_id",
        "priority": "priority",
        "started_at": "started_at",
        "created_at": "created_at",
    },
    order_by="created_at",
    lease=float(os.environ.get("LEASE", "60")),
)

TABLES = """
create table if not exists executions (
  id text primary key,
  code text not null,
  status text not null default 'queued',
  priority integer not null default 0,
  worker_id text,
  started_at text,
  created_at text not null default current_timestamp
);
create table if not exists outputs (execution_id text not null, worker_id text not null, output text not null);
"""


def add(number: int) -> None:
    with sqlite3.connect(FILE) as connection:
        connection.executescript(TABLES)
        rows = [(f"execution-{n}", f"{n} * {n}", n % 3) for n in range(number)]
        connection.executemany("insert into executions (id, code, priority) values (?, ?, ?)", rows)
    executions.migrate()


def square(code: str) -> str:
    """Run the code of an execution: here, a product of two numbers."""
    first, _, second = code.partition(" * ")
    return str(int(first) * int(second))


def run() -> None:
    """Process executions by priority until none is due and none is running."""
    while True:
        with executions.claim(limit=5, wait=1, worker=WORKER) as claims:
            for claim in claims:
                with claim.transaction() as connection:  # output and status in one transaction
                    output = square(claim.row.code)
                    connection.execute("insert into outputs values (?, ?, ?)", (claim.row.id, WORKER, output))
                log.info("%s is done by %s", claim.row.id, WORKER)
        stats = executions.stats()
        if stats.total("due") + stats.total("running") == 0:
            return


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with executions:
        match arguments:
            case ["add", number]:
                add(int(number))
            case ["run"]:
                run()
            case _:
                sys.exit(f"usage: {sys.argv[0]} add NUMBER | run")


if __name__ == "__main__":
    main(sys.argv[1:])
