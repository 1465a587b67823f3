"""Holders that are stopped inside their transaction, and resume after other workers have taken over.

    python -m tests.postgres.zombies URL SERVER SCHEMA NUMBER

For each line of input the process claims NUMBER jobs, writes the effect of each in a separate transaction, and prints
that it is ready. At the next line it ends all transactions and prints their results.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

import tenure

EFFECT = "insert into {schema}.effects (job, fence) values (%s, %s)"
LEASE = 600


@contextmanager
def effect(server: str, schema: str, claim: tenure.Claim, *, is_own: bool) -> Iterator[None]:
    """Write the effect of a job and complete it in one transaction: the claim's, or the caller's own."""
    statement = EFFECT.format(schema=schema)
    if not is_own:
        with claim.transaction() as connection:
            connection.execute(statement, (claim.id, claim.fence))
            yield
        return
    with psycopg.connect(server) as connection:
        connection.execute(statement.encode(), (claim.id, claim.fence))
        yield
        claim.complete(connection=connection)


def ending(block: "Iterator[None]") -> str:
    try:
        next(block, None)
    except tenure.ClaimLost:
        return "lost"
    return "done"


def story(server: str, schema: str, claim: tenure.Claim, *, is_own: bool) -> Iterator[None]:
    with effect(server, schema, claim, is_own=is_own):
        yield


def main(url: str, server: str, schema: str, number: str) -> None:
    with tenure.Jobs(url) as jobs:
        for _ in sys.stdin:
            claims = jobs.claim(limit=int(number), lease=LEASE)
            blocks = [story(server, schema, claim, is_own=n % 2 == 1) for n, claim in enumerate(claims)]
            for block in blocks:
                next(block)
            print("ready", flush=True)
            sys.stdin.readline()
            print(*(ending(block) for block in blocks), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
