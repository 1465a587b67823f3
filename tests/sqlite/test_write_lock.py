"""The process lock: a writer holds it until the commit is done."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenure.backends.sqlite import SQLite
from tenure.backends.sqlite.process_lock import ProcessLock
from tenure.core.job import NewJob


def lock_of(path: Path) -> Path:
    return Path(f"{path}-tenure-lock")


def is_locked(path: Path) -> bool:
    file = os.open(lock_of(path), os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


@contextmanager
def locked_by_another(path: Path) -> Iterator[None]:
    lock = ProcessLock(path)
    assert lock.acquire(time.monotonic())
    yield
    lock.close()


def put(store: SQLite, id: str = "first") -> None:
    store.enqueue([NewJob("work").record(id)])


def test_an_operation_that_writes_holds_the_lock(path: Path) -> None:
    seen: list[bool] = []

    def clock() -> datetime:
        seen.append(is_locked(path))
        return datetime.now(UTC)

    store = SQLite(path, clock=clock)
    put(store)

    assert seen == [True]
    assert not is_locked(path)
    store.close()


def test_who_may_use_the_database_may_use_the_lock(path: Path) -> None:
    SQLite(path).close()
    put(store := SQLite(path))
    store.close()
    lock_of(path).unlink()
    path.chmod(0o664)
    before = os.umask(0o077)

    try:
        put(store := SQLite(path), "second")
    finally:
        os.umask(before)

    store.close()
    made, database = lock_of(path).stat(), path.stat()
    assert (made.st_mode, made.st_uid, made.st_gid) == (database.st_mode, database.st_uid, database.st_gid)


def test_a_transaction_holds_the_lock(path: Path) -> None:
    store = SQLite(path)
    with store.transaction():
        assert is_locked(path)

    assert not is_locked(path)
    store.close()


def test_nobody_writes_while_another_has_the_lock(path: Path) -> None:
    store = SQLite(path, timeout=0.1)
    put(store)

    with locked_by_another(path), pytest.raises(Exception, match="locked by another writer"):
        put(store, "second")

    put(store, "second")
    store.close()


def test_the_same_file_has_the_same_lock_by_whatever_name(path: Path) -> None:
    store = SQLite(path, timeout=0.1)
    put(store)
    link = path.with_name("link.db")
    link.symlink_to(path)
    other = SQLite(link, timeout=0.1)

    with store.transaction(), pytest.raises(Exception, match="locked by another writer"):
        put(other, "second")

    assert not lock_of(link).exists()
    store.close()
    other.close()


def test_a_lock_whose_file_was_deleted_is_taken_anew(path: Path) -> None:
    store = SQLite(path, timeout=0.1)
    put(store)
    lock_of(path).unlink()

    with store.transaction():
        assert is_locked(path)
    store.close()


def test_a_lock_that_another_user_made_is_enough_to_be_read(path: Path) -> None:
    store = SQLite(path)
    put(store)
    lock_of(path).chmod(0o444)
    store.close()

    put(SQLite(path), "second")


@pytest.mark.parametrize("block", ["read_transaction", "write_transaction"])
def test_closing_does_not_wait_for_ever_for_a_block_that_a_signal_kept_from_being_left(path: Path, block: str) -> None:
    store = SQLite(path, timeout=0.1)
    put(store)
    left = getattr(store.database, block)()
    left.__enter__()

    closing = threading.Thread(target=store.close, daemon=True)
    closing.start()
    closing.join(60)

    assert not closing.is_alive()
    left.__exit__(None, None, None)
    put(store, "second")
    store.close()
    assert not Path(f"{path}-wal").exists()
