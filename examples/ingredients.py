"""A table as a queue: match ingredients with products, on PostgreSQL.

    export DATABASE_URL=postgresql://localhost/kitchen
    python examples/ingredients.py setup 100       # the table, as an app would define it, and some rows
    tenure work ingredients:queue --processes 3    # in this folder; any number, on any machine
    python examples/ingredients.py retry           # every night: retry the failed rows
    python examples/ingredients.py show

The table keeps its columns and state names: `columns` and `states` map them. The worker claims only rows from the
scraper.
"""

import logging
import os
import sys

import psycopg

import tenure

DATABASE = os.environ.get("DATABASE_URL", "postgresql://localhost/kitchen")

queue = tenure.Table(
    DATABASE,
    "ingredient_match_queue",
    columns={
        "state": "status",
        "leased_until": "processing_lease_expires_at",
        "attempts": "attempt_count",
        "error": "last_error",
        "created_at": "created_at",
    },
    states={"queued": "pending", "running": "processing", "completed": "resolved", "failed": "failed"},
    where="source = :source",
    params={"source": "scraper"},
    order_by="created_at",
    on_retry={"resolved_by": None, "resolved_at": None},
    output="matches.queue_id",
    lease=180,
    max_attempts=5,
)

TABLES = """
create table ingredient_match_queue (
  id bigint generated always as identity primary key,
  source text not null,
  ingredient text not null,
  status text not null default 'pending' check (status in ('pending', 'processing', 'resolved', 'failed', 'cancelled')),
  attempt_count integer not null default 0,
  processing_lease_expires_at timestamptz,
  resolved_by text,
  resolved_at timestamptz,
  last_error text,
  created_at timestamptz not null default clock_timestamp()
);
create table products (name text primary key);
create table matches (
  id bigint generated always as identity primary key,
  queue_id bigint not null references ingredient_match_queue (id),
  product text not null
);
"""


FIND = "select name from products where name = lower(%s)"
RESOLVE = "update ingredient_match_queue set resolved_by = %s, resolved_at = now() where id = %s"
MATCH = "insert into matches (queue_id, product) values (%s, %s)"


@queue.handler
def match(row: tenure.Row) -> None:
    """Find the product of an ingredient. The match and the status are committed together or not at all."""
    with psycopg.connect(DATABASE) as connection:
        found = connection.execute(FIND, [row.ingredient]).fetchone()
        if found is None:
            connection.execute(RESOLVE, ["no product", row.id])
    if found is None:
        # A retry today would fail again. The nightly retry may succeed.
        raise tenure.Fail(f"there is no product for {row.ingredient!r}")
    with tenure.current().transaction() as connection:
        connection.execute(MATCH, [row.id, found[0]])
        connection.execute(RESOLVE, ["the matcher", row.id])


def setup(number: int) -> None:
    with psycopg.connect(DATABASE) as connection:
        connection.execute(TABLES)
        with connection.cursor() as cursor:
            names = [f"Ingredient {n}" for n in range(number)]
            # One product in ten is still missing.
            known = [(name.lower(),) for n, name in enumerate(names) if n % 10]
            cursor.executemany("insert into products values (%s)", known)
            cursor.executemany(
                "insert into ingredient_match_queue (source, ingredient) values ('scraper', %s)",
                [(name,) for name in names],
            )
            cursor.execute("insert into ingredient_match_queue (source, ingredient) values ('by hand', 'Salt')")
    for statement in queue.migrate():
        print(statement)


def restock() -> None:
    """Add the missing products."""
    with psycopg.connect(DATABASE) as connection:
        connection.execute(
            "insert into products select lower(ingredient) from ingredient_match_queue on conflict do nothing"
        )


def show() -> None:
    print(queue.stats())
    for job in queue.find(attempts_over=5):
        print(f"{job.id} was tried {job.attempts} times: {job.errors[-1:]}")


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with queue:
        match arguments:
            case ["setup", number]:
                setup(int(number))
            case ["restock"]:
                restock()
            case ["retry"]:
                moved = queue.retry(state="failed", reason="nightly")
                print(f"retried: {sum(each.moved for each in moved)}")
            case ["show"]:
                show()
            case _:
                sys.exit(f"usage: {sys.argv[0]} setup NUMBER | restock | retry | show")


if __name__ == "__main__":
    main(sys.argv[1:])
