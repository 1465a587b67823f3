"""One invoice per order, even if a worker is killed between writing the invoice and updating the order, on PostgreSQL.

    export DATABASE_URL=postgresql://localhost/shop
    python examples/invoices.py setup 100
    python examples/invoices.py work &             # two processes or more
    python examples/invoices.py work

The handler writes the invoice in its own transaction, so the worker can be killed after that and before the order is
`done`. Before tenure retries an order, it checks whether the invoice exists; a unique index prevents duplicates.
"""

import logging
import os
import sys

import psycopg
from psycopg import errors

import tenure

DATABASE = os.environ.get("DATABASE_URL", "postgresql://localhost/shop")

orders = tenure.Table(
    DATABASE,
    "orders",
    columns={"state": "status", "started_at": "started_at", "completed_at": "completed_at", "created_at": "created_at"},
    states={"queued": "queued", "running": "started", "completed": "done", "failed": "failed"},
    order_by="created_at",
    done_if="exists (select 1 from invoices where invoices.order_id = orders.id)",
    output="invoices.order_id",
    lease=float(os.environ.get("LEASE", "60")),
)

TABLES = """
create type order_status as enum ('queued', 'started', 'done', 'failed');
create table orders (
  id uuid primary key default gen_random_uuid(),
  customer text not null,
  total numeric(10, 2) not null,
  status order_status not null default 'queued',
  started_at timestamptz,
  completed_at timestamptz,
  created_at timestamptz not null default clock_timestamp()
);
create table invoices (
  number bigint generated always as identity primary key,
  order_id uuid not null references orders (id),
  total numeric(10, 2) not null
);
"""


@orders.handler
def invoice(row: tenure.Row) -> None:
    """Write an invoice. The worker marks the order as done afterwards."""
    try:
        with psycopg.connect(DATABASE) as connection:
            connection.execute("insert into invoices (order_id, total) values (%s, %s)", [row.id, row.total])
    except errors.UniqueViolation:
        # Another worker lost its claim and wrote the invoice late. The invoice exists, so there is nothing to do.
        logging.getLogger(__name__).warning("order %s already has an invoice", row.id)


def setup(number: int) -> None:
    with psycopg.connect(DATABASE) as connection:
        connection.execute(TABLES)
        with connection.cursor() as cursor:
            rows = [(f"customer {n}", n + 0.5) for n in range(number)]
            cursor.executemany("insert into orders (customer, total) values (%s, %s)", rows)
    orders.migrate()


def show() -> None:
    stats = orders.stats()
    print(f"done: {stats.total('completed')}, recovered: {stats.total('recovered')}, ", end="")
    print(f"prevented: {stats.total('prevented')}, left: {stats.total('due') + stats.total('running')}")


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with orders:
        match arguments:
            case ["setup", number]:
                setup(int(number))
            case ["work"]:
                print(orders.work(concurrency=4))
            case ["show"]:
                show()
            case _:
                sys.exit(f"usage: {sys.argv[0]} setup NUMBER | work | show")


if __name__ == "__main__":
    main(sys.argv[1:])
