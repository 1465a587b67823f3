"""Features of the memory store only: names, forks, event loops."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest

import tenure
from tenure.backends.memory import Memory, open_memory
from tenure.backends.memory.waiters import Waiter
from tenure.backends.urls import mask_password, open_backend
from tenure.core.job import Progress
from tenure.core.operations import SILENT_WORKER_TTL, Extension, Heartbeat, Move, Purge, Query, Slot
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_failure, build_record, request, settle, take


def test_a_store_without_a_name_is_private() -> None:
    first, second = tenure.Jobs("memory://"), tenure.Jobs("memory://")
    first.enqueue("work")

    assert second.claim() == []


def test_a_name_is_shared_within_the_process() -> None:
    id = tenure.Jobs("memory://shared-in-this-test").enqueue("work")

    assert [claim.id for claim in tenure.Jobs("memory://shared-in-this-test").claim()] == [id]
    assert tenure.Jobs("memory://another-in-this-test").claim() == []


def test_closing_one_who_shares_a_name_leaves_the_other_working() -> None:
    first, second = tenure.Jobs("memory://closed-in-this-test"), tenure.Jobs("memory://closed-in-this-test")
    first.enqueue("work")
    first.close()

    assert len(second.claim()) == 1


def test_the_same_name_is_the_same_object() -> None:
    assert open_memory("same-in-this-test") is open_memory("same-in-this-test")
    assert open_memory("") is not open_memory("")


@pytest.mark.parametrize("seed", range(10))
def test_an_operation_that_is_broken_off_anywhere_is_undone(seed: int) -> None:
    clock = Clock()
    store = Memory(clock=clock)
    store.enqueue([build_record(id=str(n), key=f"k{n}", delay=n % 3, priority=n % 2) for n in range(12)])
    clock.advance(1)
    first, second, third = take(store, limit=3, lease=1)
    begun_at = store.schedule("begun", []).last_at
    slots = [Slot(at=begun_at + timedelta(seconds=n), record=build_record(id=f"slot-{n}")) for n in (60, 120)]
    operations: list[Callable[[], object]] = [
        lambda: store.enqueue([build_record(id=f"new-{n}", delay=n) for n in range(5)]),
        lambda: take(store, limit=4),
        lambda: store.settle([build_completion(first), build_failure(second)]),
        lambda: store.extend([Extension(hold=third.hold, lease=60, progress=Progress(done=1))]),
        lambda: store.reap(worker="w1"),
        lambda: store.move(["0", "1", "2"], Move.CANCEL),
        store.stats,
        lambda: store.exchange([build_completion(third)], request(limit=2)),
        lambda: store.schedule("begun", slots),
        lambda: store.schedule("new", slots),
    ]
    clock.advance(5)
    before = everything(store)
    step = 1
    while broken_off(operations[seed], step):
        assert everything(store) == before
        step += 1

    assert step > 10


def test_an_undoing_that_is_broken_off_anywhere_is_begun_again() -> None:
    store = Memory(clock=Clock())
    store.enqueue([build_record(id=str(n), key=f"k{n}") for n in range(12)])
    before = everything(store)
    step = 1
    while True:
        assert broken_off(lambda: take(store, limit=4), 60)
        assert store._undo_log.is_open
        is_broken_off = broken_off(store.stats, step)
        assert everything(store) == before
        step += 5
        if not is_broken_off:
            break

    assert step > 100


def everything(store: Memory) -> tuple[object, ...]:
    """Return the visible state of jobs and schedules."""
    seen = store.find(Query(limit=1_000)), store.stats()
    keys = [store._index.key_holder("default", f"k{n}") for n in range(12)]
    return *seen, keys, [store._schedules.last_at(name) for name in ("begun", "new")]


def broken_off(operation: Callable[[], object], step: int) -> bool:
    """Run the operation up to a line of the memory store, then raise; return whether it reached the line.

    The lines that acquire and release the lock are skipped: Python does not raise an exception there.
    """
    left = step

    def stop(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001
        nonlocal left
        code = frame.f_code
        if event == "line" and "backends/memory/" in code.co_filename and code.co_name not in {"_locked", "close"}:
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return stop

    sys.settrace(stop)
    try:
        operation()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_an_interrupted_wait_leaves_nobody_to_be_woken_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Waiter, "sleep", interrupt)
    store = Memory()
    with pytest.raises(KeyboardInterrupt):
        store.wait(None, None, 60)

    assert store._waiters._waiting == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_that_it_has_only_a_copy() -> None:
    store = Memory()
    store.enqueue([build_record()])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            take(store)
            os.write(writing, b"claimed")
        except tenure.StoreUnavailable as exc:
            store.close()
            os.write(writing, str(exc).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)

    with os.fdopen(reading) as answer:
        assert answer.read().startswith("this memory store belongs to process")
    assert len(take(store)) == 1


def test_two_event_loops_in_two_threads_share_one_store() -> None:
    store = Memory()
    ids = [each.id for each in store.enqueue([build_record() for _ in range(400)])]

    async def work(worker: str) -> list[str]:
        claimed = []
        while taken := await asyncio.to_thread(take, store, limit=3, worker=worker):
            for each in taken:
                claimed.append(each.id)
                assert await asyncio.to_thread(settle, store, build_completion(each))
        return claimed

    async def loop_of(name: str) -> list[str]:
        done = await asyncio.gather(*(work(f"{name}{n}") for n in range(5)))
        return [id for each in done for id in each]

    with ThreadPoolExecutor(2) as threads:
        claimed = [id for each in threads.map(lambda name: asyncio.run(loop_of(name)), "xy") for id in each]

    assert sorted(claimed) == sorted(ids)


BAD_URLS = {
    "memory:": "'memory:' is not a store URL; begin it with memory://",
    "memry://": "did you mean 'memory://'",
    "memory": "did you mean 'memory://'",
    "Memory://": "did you mean 'memory://'",
    "": "'' is not a store URL",
    "ftp://host/x": "'ftp://host/x' is not a store URL",
    "memory://name/path": "invalid URL 'memory://name/path': use 'memory://' or 'memory://name'",
    "memory:// ": "use 'memory://' or 'memory://name'",
    "memory://?size=3": "has no option 'size'",
}


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_that_names_no_store_is_refused_with_the_remedy(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend(url)

    assert BAD_URLS[url] in str(caught.value)


def test_what_is_not_a_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"store must be a URL such as 'sqlite:///tenure.db', not 7"):
        open_backend(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory://name", "memory://name"),
        ("x://ada:s3cret@host/db?a=1", "x://ada:***@host/db?a=1"),
        ("x://ada@host/db", "x://ada@host/db"),
        ("x://:s3cret@host", "x://:***@host"),
        ("x://ada:s3/c@ret@host", "x://ada:***@host"),
        ("x://host/db?user=ada&password=s3cret&a=1", "x://host/db?user=ada&password=***&a=1"),
        ("x://host/db?PASSWORD=s3cret", "x://host/db?PASSWORD=***"),
        ("x:/ada:s3cret@host/db", "x:/ada:***@host/db"),
        ("x//ada:s3cret@host", "x//ada:***@host"),
        ("ada:s3cret@host/db", "ada:***@host/db"),
        ("x://host:5432/db", "x://host:5432/db"),
        ("x://a:s3cret@h?notify=x%3A%2F%2Fb%3As3cret%40i&c=1", "x://a:***@h?notify=x%3A%2F%2Fb%3A***%40i&c=1"),
        ("x://h?notify=x%3A%2F%2Fi%3Fpassword%3Ds3cret", "x://h?notify=x%3A%2F%2Fi%3Fpassword%3D***"),
        ("x://h?notify=x%253A%252F%252Fb%253As3cret%2540i", "x://h?notify=x%3A%2F%2Fb%3A***%40i"),
        ("x://h?notify=x://b:s3cret@i", "x://h?notify=x%3A***%40i"),
        ("x://a:s3?notify=cret@h", "x://a:***@h"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert mask_password(url) == mask_password(shown) == shown


@pytest.mark.parametrize("url", ["nope://ada:s3cret@host", "memory://ada:s3cret@h?x=1", "memory://ada:s3cret@h/p"])
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend(url)

    assert "s3cret" not in str(caught.value)


def test_nothing_is_left_in_memory_of_jobs_that_were_forgotten() -> None:
    store = Memory()
    for n in range(300):
        store.enqueue(
            [build_record(f"t{n}", queue=f"q{n}", key=f"k{n}", id=f"a{n}"), build_record(f"t{n}", id=f"b{n}", delay=60)]
        )
        store.move([f"b{n}"], Move.CANCEL)
        (taken,) = take(store, worker=f"w{n}")
        settle(store, build_completion(taken))
    store.purge(Purge(older_than=0, limit=1_000))

    assert {name: place for name, place in vars(store._index).items() if len(place)} == {}
    assert len(store._enqueue_order._sequences) < 200


def test_nothing_is_left_in_memory_of_workers_that_were_silent_for_long() -> None:
    clock = Clock()
    store = Memory(clock=clock)
    store.beat(Heartbeat(name="long gone", host="h", pid=1, version="1"), ttl=30)
    clock.advance(SILENT_WORKER_TTL + 30)

    store.beat(Heartbeat(name="alive", host="h", pid=2, version="1"), ttl=30)

    assert list(store._registry._workers) == ["alive"]
