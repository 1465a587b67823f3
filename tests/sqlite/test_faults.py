"""File errors: a clear message, nothing half-done, and the next call works when the cause is removed."""

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from tests.sqlite.scenes import play

import tenure
from tenure.backends.sqlite import SQLite
from tenure.core.job import NewJob
from tenure.core.operations import Query
from tenure.testing.conformance.building import build_completion, build_retry, ids_of, settle, take, take_one
from tenure.testing.conformance.racing import run_concurrently


def put(store: SQLite, id: str, size: int = 1) -> None:
    store.enqueue([NewJob("work", {"text": "x" * size}).record(id)])


def stored(store: SQLite) -> list[str]:
    return sorted(ids_of(store.find(Query()).jobs))


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Lock the file as another writer does."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("begin immediate")
        yield other


@pytest.fixture
def store(path: Path) -> Iterator[SQLite]:
    made = SQLite(path, timeout=0.2)
    put(made, "first")
    yield made
    made.close()


def test_a_file_that_another_writer_keeps_locked_is_unavailable_until_it_lets_go(path: Path, store: SQLite) -> None:
    taken = take_one(store)
    with locked(path):
        for action in (
            lambda: put(store, "second"),
            lambda: take(store),
            lambda: settle(store, build_completion(taken)),
        ):
            with pytest.raises(tenure.StoreUnavailable, match=r"locked by another writer for more than 0\.2 s"):
                action()
        assert stored(store) == ["first"]

    put(store, "second")
    assert settle(store, build_completion(taken))
    assert stored(store) == ["first", "second"]


def test_a_call_waits_for_another_writer_as_long_as_it_may(path: Path, store: SQLite) -> None:
    patient = SQLite(path, timeout=120)
    with locked(path) as other:
        waiting = threading.Thread(target=put, args=(patient, "second"), daemon=True)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        other.execute("rollback")

        waiting.join(60)

    assert stored(store) == ["first", "second"]
    patient.close()


def test_opening_waits_for_another_writer_too(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("create table orders (id integer primary key)")
        other.execute("begin exclusive")
        store = SQLite(path, timeout=120)
        waiting = threading.Thread(target=put, args=(store, "first"), daemon=True)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        other.execute("rollback")

        waiting.join(60)

    assert stored(store) == ["first"]
    store.close()


def test_readers_and_writers_of_a_file_without_wal_wait_for_each_other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table orders (id integer primary key)")
    stores = [SQLite(path, timeout=120) for _ in range(4)]
    number = 30

    def use(n: int) -> None:
        for round in range(number):
            put(stores[n], f"{n}-{round}")
            stores[n].stats()
            for taken in take(stores[n]):
                settle(stores[n], build_completion(taken))

    run_concurrently([partial(use, n) for n in range(4)])

    assert stores[0].stats().total("completed") == 4 * number
    for store in stores:
        store.close()


def test_a_handle_of_the_same_process_waits_its_turn(path: Path, store: SQLite) -> None:
    other = SQLite(path, timeout=0.2)
    with store.transaction(), pytest.raises(tenure.StoreUnavailable, match="locked by another writer"):
        put(other, "second")

    put(other, "second")
    assert stored(store) == ["first", "second"]
    other.close()


def test_a_full_disk_is_told_and_nothing_of_the_request_is_stored(store: SQLite) -> None:
    assert store.database._writer is not None
    db = store.database._writer.db
    (pages,) = db.execute("pragma page_count").fetchone()
    db.execute(f"pragma max_page_count = {pages + 10}")

    with pytest.raises(tenure.StoreUnavailable, match="the disk is full; free some space"):
        put(store, "second", size=200_000)

    assert stored(store) == ["first"]
    # The limit applied to the connection: after an error the store opens a new one.
    put(store, "second", size=200_000)
    assert stored(store) == ["first", "second"]


def test_a_file_that_cannot_grow_is_told_and_nothing_of_the_request_is_stored(path: Path) -> None:
    seen = play("out_of_room", path)

    assert "cannot use" in seen["told"]
    assert seen["found"] == ["first", "later"]


def test_a_deleted_file_is_told_and_not_silently_begun_anew(path: Path, store: SQLite) -> None:
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    shutil.copy(path, copy)
    path.unlink()

    with pytest.raises(tenure.StoreUnavailable, match="deleted or replaced while it was in use"):
        put(store, "second")
    with pytest.raises(tenure.StoreUnavailable, match="no longer exists; restore it"):
        put(store, "second")
    assert not path.exists()

    shutil.copy(copy, path)
    put(store, "second")
    assert stored(SQLite(path)) == ["first", "second"]


def test_a_file_that_was_moved_away_and_back_has_lost_nothing_by_being_asked_for(path: Path, store: SQLite) -> None:
    store.stats()
    path.rename(path.with_name("away.db"))

    for _ in range(3):
        with pytest.raises(tenure.StoreUnavailable, match=r"deleted or replaced|is gone"):
            store.stats()
    assert not path.exists()

    path.with_name("away.db").rename(path)
    assert stored(store) == ["first"]
    put(store, "second")
    assert stored(SQLite(path)) == ["first", "second"]


def test_what_only_reads_does_not_read_the_file_of_another(path: Path, store: SQLite) -> None:
    store.stats()
    for each in path.parent.iterdir():
        each.unlink()
    other = SQLite(path)
    put(other, "of the other")

    with pytest.raises(tenure.StoreUnavailable, match="deleted or replaced"):
        stored(store)
    other.close()


def test_a_file_that_was_replaced_is_told_before_the_new_one_is_used(path: Path, store: SQLite) -> None:
    other = SQLite(path.with_name("other.db"))
    put(other, "of the other")
    other.close()
    path.with_name("other.db").replace(path)

    with pytest.raises(tenure.StoreUnavailable, match="deleted or replaced"):
        put(store, "second")

    put(store, "second")
    assert "second" in stored(SQLite(path))


def test_a_damaged_file_is_told_and_works_when_it_is_mended(path: Path, store: SQLite) -> None:
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    damaged = SQLite(path)

    with pytest.raises(tenure.StoreUnavailable, match="the file is damaged; restore a backup"):
        put(damaged, "second")

    path.write_bytes(whole)
    put(damaged, "second")
    assert stored(damaged) == ["first", "second"]
    damaged.close()


def test_a_file_that_is_no_database_is_told_and_left_as_it_is(path: Path) -> None:
    path.write_text("a letter to a friend\n" * 100)

    with pytest.raises(tenure.StoreUnavailable, match="the file is not a SQLite database"):
        put(SQLite(path), "first")

    assert path.read_text() == "a letter to a friend\n" * 100


def test_a_folder_that_is_missing_is_told(path: Path) -> None:
    store = SQLite(path.parent / "missing" / "tenure.db")

    with pytest.raises(tenure.StoreUnavailable, match=r"the folder of .* does not exist; create it"):
        put(store, "first")

    (path.parent / "missing").mkdir()
    put(store, "first")
    assert stored(store) == ["first"]
    store.close()


def test_what_could_never_be_opened_can_be_closed(path: Path) -> None:
    with (
        pytest.raises(tenure.StoreUnavailable, match="does not exist"),
        tenure.Jobs(f"sqlite:///{path.parent}/missing/tenure.db") as jobs,
    ):
        jobs.enqueue("work")


def test_a_name_that_no_file_can_have_is_told(folder: Path) -> None:
    with pytest.raises(tenure.StoreUnavailable, match=r"cannot access .*: File name too long"):
        put(SQLite(folder / ("x" * 300)), "first")


def test_a_file_that_is_no_database_gets_no_lock_beside_it(path: Path) -> None:
    path.write_text("a letter to a friend\n" * 100)

    with pytest.raises(tenure.StoreUnavailable):
        put(SQLite(path), "first")

    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_closing_ends_while_another_writes(path: Path, store: SQLite) -> None:
    other = SQLite(path, timeout=0.2)
    put(other, "second")

    with store.transaction():
        other.close()

    assert other.database._writer is None


def test_a_folder_is_no_file(folder: Path) -> None:
    with pytest.raises(tenure.StoreUnavailable, match="is a folder; name a file in it"):
        put(SQLite(folder), "first")


def test_a_read_only_file_is_refused_and_works_when_it_can_be_written(path: Path) -> None:
    seen = play("read_only", path)

    assert "is read-only for this process; make it writable" in seen["told"]
    assert seen["found"] == ["first", "later"]


def test_an_interrupted_operation_is_undone_and_the_next_one_works(path: Path) -> None:
    moments: list[BaseException | datetime] = [KeyboardInterrupt(), datetime(2026, 1, 1, tzinfo=UTC)]

    def clock() -> datetime:
        moment = moments.pop(0) if len(moments) > 1 else moments[0]
        if isinstance(moment, BaseException):
            raise moment
        return moment

    store, other = SQLite(path, clock=clock, timeout=0.2), SQLite(path, timeout=0.2)
    with pytest.raises(KeyboardInterrupt):
        put(store, "first")

    put(other, "another's")
    put(store, "second")
    assert stored(store) == ["another's", "second"]
    store.close()
    other.close()


DEEP = "[" * 100_000 + "]" * 100_000
PAYLOAD = "update tenure_payloads set payload = cast(? as text) where job = 2"
DAMAGE = {
    "payload that is not UTF-8": (PAYLOAD, b'{"\xff', '{"\udcff'),
    "payload that is not JSON": (PAYLOAD, b"none", "none"),
    "payload that is very deep": (PAYLOAD, DEEP.encode(), DEEP),
    "meta that is not UTF-8": (
        "update tenure_jobs set meta = cast(? as text) where sequence = 2",
        b"\xff",
        {"text": "x"},
    ),
    "error that is not UTF-8": (
        "update tenure_history set error = cast(? as text) where job = 2",
        b"\xff",
        {"text": "x"},
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_job_that_other_code_has_damaged_is_claimed_and_found_beside_its_neighbours(path: Path, kind: str) -> None:
    statement, content, payload = DAMAGE[kind]
    with closing(SQLite(path)) as store:
        store.enqueue([NewJob("work", {"text": "x"}, meta={"a": "b"}).record(str(number)) for number in range(3)])
        for taken in take(store, limit=3):
            settle(store, build_retry(taken, delay=0, why="broken"))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(statement, (content,))

        claimed = [taken.job for taken in take(store, limit=3)]

        assert ids_of(claimed) == ["0", "1", "2"]
        assert [job.payload for job in claimed] == [{"text": "x"}, payload, {"text": "x"}]
        assert [job.meta for job in claimed] == [{"a": "b"}, {} if "meta" in kind else {"a": "b"}, {"a": "b"}]
        assert [job.attempts for job in claimed] == [2, 2, 2]
        assert store.find(Query(newest_first=False)).jobs == claimed
