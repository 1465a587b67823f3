"""Concurrent transactions that stay open while a test runs."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.database import Execute
from tenure.backends.postgres.enqueue import decide_and_store
from tenure.core.job import JobRecord
from tenure.testing.conformance.racing import RACE_TIMEOUT, Racer
from tests.postgres.stores import Place

A = TypeVar("A")

WAITING = "select pid from pg_stat_activity where wait_event_type = 'Lock' and position(%s in query) > 0"


@contextmanager
def doing(place: Place, text: str) -> Iterator[None]:
    """Run a statement in a concurrent transaction, which commits when the block ends."""
    with psycopg.connect(place.server) as connection:
        connection.execute(text.replace("S.", f"{place.schema}.").encode())
        yield


@contextmanager
def enqueueing(store: PostgreSQL, given: JobRecord) -> Iterator[None]:
    """Enqueue a job in a concurrent transaction, which commits when the block ends."""
    stored, may_commit = threading.Event(), threading.Event()

    def enqueue(ask: Execute) -> None:
        decide_and_store(store.database, ask, [given])
        stored.set()
        assert may_commit.wait(RACE_TIMEOUT)

    enqueuing = Racer().start(lambda: store.database.transact(enqueue))
    assert stored.wait(RACE_TIMEOUT)
    try:
        yield
    finally:
        may_commit.set()
        enqueuing.result(RACE_TIMEOUT)


def started(place: Place, action: Callable[[], A]) -> "Future[A]":
    """Run a function in a thread; return as soon as the thread waits for a lock."""
    running = Racer().start(action)
    wait_for_a_waiter(place)
    return running


def wait_for_a_waiter(place: Place) -> None:
    """Return as soon as a session waits for the lock of another session."""
    ends_at = time.monotonic() + RACE_TIMEOUT
    while not place.execute(WAITING, place.schema):
        assert time.monotonic() < ends_at, "nobody waits"
