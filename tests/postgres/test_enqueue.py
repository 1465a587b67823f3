"""Concurrent enqueues of the same jobs."""

from collections.abc import Sequence
from typing import Any

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.database import Execute
from tenure.backends.postgres.enqueue import decide_and_store
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.core.operations import Enqueued
from tenure.testing.conformance.building import build_record


def test_a_job_that_is_stored_while_it_is_looked_up_is_not_told_that_it_has_its_own_key(store: PostgreSQL) -> None:
    given = build_record(id="same", key="k", on_conflict="raise")

    def enqueue(ask: Execute) -> list[Enqueued]:
        def with_another_in_between(steps: Sequence[BoundQuery]) -> list[Any]:
            first, *others = steps
            answer = ask([first])
            store.enqueue([given])
            return [*answer, *ask(others)]

        return decide_and_store(store.database, with_another_in_between, [given])

    answer = store.database.transact(enqueue)

    assert answer == [Enqueued(id="same", created=False)]
