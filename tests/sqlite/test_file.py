"""The content of the file, and the number of queries."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.sqlite import SQLite
from tenure.core.job import NewJob
from tenure.core.operations import SILENT_WORKER_TTL, Heartbeat, Move, Purge
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_failure, settle, take, take_one


@pytest.fixture
def store(path: Path) -> Iterator[SQLite]:
    made = SQLite(path, synchronous="normal")
    yield made
    made.close()


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(statement).fetchall()


def test_a_number_in_enqueue_order_is_never_given_twice(store: SQLite, path: Path) -> None:
    store.enqueue([NewJob("work").record("a"), NewJob("work").record("b")])
    store.move(["b"], Move.CANCEL)
    store.delete(["b"])

    store.enqueue([NewJob("work").record("c")])

    assert rows(path, "select id, sequence from tenure_jobs order by sequence") == [("a", 1), ("c", 3)]


@pytest.mark.parametrize("way", ["delete", "purge"])
def test_nothing_is_left_of_a_job_that_is_forgotten(store: SQLite, path: Path, way: str) -> None:
    store.enqueue([NewJob("work", {"n": 1}).record("a")])
    settle(store, build_failure(take_one(store), final=True))

    if way == "delete":
        store.delete(["a"])
    else:
        store.purge(Purge(older_than=0))

    for table in ("tenure_jobs", "tenure_payloads", "tenure_history", "tenure_lanes"):
        assert rows(path, f"select * from {table}") == []  # noqa: S608


def test_who_waits_does_not_ask_without_pause(store: SQLite, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    version = store.database.data_version

    def counted(age: float) -> int:
        asked.append(age)
        return version(age)

    monkeypatch.setattr(store.database, "data_version", counted)

    store.wait(None, None, 1)

    assert 1 < len(asked) < 500


def test_those_who_wait_together_ask_for_each_other(store: SQLite) -> None:
    store.stats()
    asked: list[str] = []
    assert store.database._reader is not None
    store.database._reader.db.set_trace_callback(asked.append)

    store.database.data_version(0)
    for _ in range(100):
        store.database.data_version(60)

    assert asked == ["pragma data_version"]


def test_a_claim_that_finds_nothing_writes_nothing(store: SQLite, path: Path) -> None:
    store.enqueue([NewJob("work").record("a")])
    settle(store, build_completion(take_one(store)))
    before = Path(f"{path}-wal").stat().st_size

    assert take(store) == []
    assert store.reap() == []

    assert Path(f"{path}-wal").stat().st_size == before


def test_asking_for_the_last_slot_of_a_schedule_writes_nothing(store: SQLite, path: Path) -> None:
    begun_at = store.schedule("hourly", []).last_at
    before = Path(f"{path}-wal").stat().st_size

    assert store.schedule("hourly", []).last_at == begun_at

    assert Path(f"{path}-wal").stat().st_size == before


def test_nothing_is_left_of_workers_that_were_silent_for_long(path: Path) -> None:
    clock = Clock()
    store = SQLite(path, clock=clock, synchronous="normal")
    store.beat(Heartbeat(name="long gone", host="h", pid=1, version="1"), ttl=30)
    clock.advance(SILENT_WORKER_TTL + 30)

    store.beat(Heartbeat(name="alive", host="h", pid=2, version="1"), ttl=30)

    assert rows(path, "select name from tenure_workers") == [("alive",)]
