"""NOTIFY wakes waiting stores, and a listener detects whether it receives notifications.

tests/stores/test_wakeups.py has the tests common to all stores.
"""

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import tenure
from tenure.backends.postgres import PostgreSQL, notifier
from tenure.backends.postgres import listener as listening
from tenure.backends.postgres.job_waiter import JobWaiter
from tenure.backends.postgres.listener import Listener
from tenure.backends.postgres.notifier import channel_of, parse_notification
from tenure.backends.shared import waiter
from tenure.backends.shared.waiter import WaitGroup
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, request, take, take_one
from tests.postgres.stores import Place
from tests.postgres.waiting import HOUR, LIMIT, listen, waiting
from tests.servers.postgres import Server
from tests.servers.servers import Servers
from tests.stores.waiting import started_wait
from tests.worker.looking import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(postgres: Server, servers: Servers) -> Iterator[Place]:
    """A schema that is truncated and reused."""
    schema = servers.schemas.take(postgres)
    yield Place(postgres.url, schema)
    servers.schemas.give_back(postgres, schema)


@pytest.fixture
def other(place: Place) -> Iterator[PostgreSQL]:
    """A second store object, like that of another process."""
    other = place.open()
    yield other
    other.close()


def listening_sessions(place: Place) -> set[int]:
    listening = "select pid from pg_stat_activity where query like %s"
    return {pid for (pid,) in place.execute(listening, f"listen%{place.schema}%")}


def cut_off_listener(place: Place) -> None:
    """Terminate the session of the listener, and return when a new one exists."""
    before = listening_sessions(place)
    place.execute("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", list(before))
    until(lambda: listening_sessions(place) - before)


def test_a_wait_in_the_same_process_is_ended_though_nothing_is_heard(
    store: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening.Listener, "ensure_listening", lambda _: None)
    monkeypatch.setattr(waiter, "SHORTEST_POLL", HOUR)

    with waiting(store, "mail") as thread:
        store.enqueue([build_record(queue="mail")])

    assert not thread.is_alive()


def test_a_ring_names_the_queues_of_jobs_that_are_due_soon(place: Place, store: PostgreSQL) -> None:
    heard: set[str] = set()
    with psycopg.connect(place.server, autocommit=True) as connection:
        connection.execute(f"listen {channel_of(place.schema)}".encode())

        store.enqueue([build_record(queue="later", delay=60)])
        store.enqueue([build_record(queue="mail"), build_record(queue="post", delay=0.5)])
        for notification in connection.notifies(timeout=LIMIT, stop_after=1):
            heard |= parse_notification(notification.payload).queues or set()

    assert heard == {"mail", "post"}


def test_a_listener_that_is_cut_off_listens_again(
    place: Place, store: PostgreSQL, other: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(store)

    cut_off_listener(place)

    listen(store)
    monkeypatch.setattr(waiter, "LONGEST_POLL", HOUR)
    with waiting(store, "mail") as thread:
        other.enqueue([build_record(queue="mail")])
    assert not thread.is_alive()


def test_a_listener_that_is_cut_off_says_so_in_one_line_and_when_it_hears_again(
    place: Place, store: PostgreSQL, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, listening.__name__)
    monkeypatch.setattr(listening, "PING_TIMEOUT", LIMIT)
    listen(store)

    cut_off_listener(place)
    until(lambda: len(caplog.records) >= 2)

    cut_off, again = [record.message for record in caplog.records]
    assert cut_off.startswith("LISTEN unavailable, polling once a second: ")
    assert "\n" not in cut_off
    assert again == "LISTEN connected"


def test_a_listener_that_hears_nothing_of_itself_is_not_relied_on(
    store: PostgreSQL, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, listening.__name__)
    monkeypatch.setattr(listening, "CLOSE_TIMEOUT", LIMIT)
    changes: list[bool] = []
    address = store.database.address

    def ring_to_nobody(_: object) -> None:
        # Not earlier: the listener also has to connect within this time.
        monkeypatch.setattr(listening, "PING_TIMEOUT", 0.01)

    # Like a pooler that gives each transaction a different session.
    listener = Listener(
        address,
        "a",
        connect=address.connect,
        ping=ring_to_nobody,
        on_notification=lambda _: None,
        on_change=lambda: changes.append(listener.is_connected),
    )

    listener.ensure_listening()
    until(lambda: changes)
    listener.close()

    assert changes == [False]
    assert [record.message for record in caplog.records] == [
        "LISTEN unavailable, polling once a second: a test notification did not arrive within 0.01 s"
    ]


def test_a_listener_proves_itself_again_after_a_silence(store: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "PING_INTERVAL", 0.01)
    listen(store)
    rings = store._waiter._listener
    sent: list[None] = []

    def ring_to_nobody(_: object) -> None:
        sent.append(None)

    monkeypatch.setattr(listening, "PING_TIMEOUT", 0.1)
    monkeypatch.setattr(rings, "_ping", ring_to_nobody)

    until(lambda: sent and not rings.is_connected)


def test_a_listener_ends_when_nobody_waits_any_more(store: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "LISTENER_IDLE_TTL", 0.01)

    store.wait(["mail"], None, 0.001)

    until(lambda: store._waiter._listener._thread is None)


def test_a_lease_that_ran_out_is_told_once_though_its_holder_is_ending_it(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    store.enqueue([build_record(id="slow", queue="mail")])
    take_one(store, lease=5)
    wakeups = store._waiter
    watch = wakeups._wait_groups.group_for(None, None)
    clock.advance(4.5)
    assert wakeups._poll(watch) == 0.5

    clock.advance(0.5)
    with psycopg.connect(place.server) as connection:
        connection.execute(f"select from {place.schema}.jobs where id = 'slow' for update".encode())
        told = wakeups._poll(watch)
        taken = take(store)
        told_again = wakeups._poll(watch)

    assert (told, taken, told_again) == (0.0, [], None)
    store.close()


LOCKED = "select from S.jobs where id = 'locked' for update"


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[WaitGroup]:
    """The wait groups of all polls; after a claim that did not get the job that a poll found, only a wake-up polls."""
    polls: list[WaitGroup] = []
    poll = JobWaiter._poll

    def counted(self: JobWaiter, group: WaitGroup) -> float | None:
        polls.append(group)
        return poll(self, group)

    monkeypatch.setattr(JobWaiter, "_poll", counted)
    monkeypatch.setattr(waiter, "SHORTEST_PAUSE", HOUR)
    monkeypatch.setattr(waiter, "LONGEST_PAUSE", HOUR)
    return polls


@pytest.mark.parametrize("claim", [take, lambda store, **options: store.exchange([], request(**options))[1].jobs])
def test_a_wait_for_a_job_that_another_transaction_has_locked_does_not_always_return_at_once(
    place: Place,
    store: PostgreSQL,
    other: PostgreSQL,
    polls: list[WaitGroup],
    claim: Callable[..., list[object]],
) -> None:
    listen(store)
    store.enqueue([build_record(id="locked", queue="mail")])
    with place.begun(LOCKED):
        store.wait(["mail"], None, HOUR)
        taken = claim(store, queues=("mail",))
        polls.clear()

        store.wait(["mail"], None, 0.1)
        number_of_polls = len(polls)
        thread = started_wait(store, ["mail"])
        other.enqueue([build_record(queue="mail")])
        thread.join(LIMIT)

    assert (taken, number_of_polls) == ([], 0)
    assert not thread.is_alive()


def claim_ids(jobs: tenure.Jobs, wait: float) -> list[str]:
    return [claim.id for claim in jobs.claim(wait=wait)]


def claim_ids_async(jobs: tenure.Jobs, wait: float) -> list[str]:
    async def claim() -> tenure.AsyncClaims:
        return await jobs.aio.claim(wait=wait)

    return [claim.id for claim in asyncio.run(claim())]


@pytest.mark.parametrize("claim", [claim_ids, claim_ids_async])
def test_a_claim_that_waits_polls_rarely_for_a_locked_job_and_gets_a_new_one_when_it_is_notified(
    place: Place,
    store: PostgreSQL,
    other: PostgreSQL,
    polls: list[WaitGroup],
    monkeypatch: pytest.MonkeyPatch,
    claim: Callable[[tenure.Jobs, float], list[str]],
) -> None:
    monkeypatch.setattr("tenure.client.source.LONGEST_POLL", HOUR)
    monkeypatch.setattr("tenure.client.aio.threads.LONGEST_POLL", HOUR)
    jobs = tenure.Jobs(place.url)
    jobs._open_store = lambda: store  # type: ignore[method-assign]
    listen(store)
    polls.clear()
    store.enqueue([build_record(id="locked")])
    with place.begun(LOCKED), ThreadPoolExecutor() as threads:
        claimed = claim(jobs, 0.5)
        number_of_polls = len(polls)
        waiting = threads.submit(claim, jobs, HOUR)
        until(lambda: store._waiter._wait_groups.group_for(None, None)._changed._waiters)  # type: ignore[attr-defined]
        other.enqueue([build_record(id="new")])

        assert waiting.result(LIMIT) == ["new"]

    assert (claimed, number_of_polls) == ([], 1)
    jobs.close()


def test_a_worker_polls_rarely_for_a_locked_job_and_starts_a_new_one_when_it_is_notified(
    place: Place, store: PostgreSQL, other: PostgreSQL, polls: list[WaitGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.poller.MAX_WAIT_STEPS", 1_000_000)
    monkeypatch.setattr("tenure.worker.claimer.MAX_IDLE_WAIT", HOUR)
    jobs = tenure.Jobs(place.url)
    jobs._open_store = lambda: store  # type: ignore[method-assign]
    has_run = threading.Event()

    @jobs.task
    def work() -> None:
        has_run.set()

    listen(store)
    store.enqueue([build_record("work", id="locked")])
    with place.begun(LOCKED), jobs.worker():
        until(lambda: any(group._pause for group in polls))
        polls.clear()
        assert not has_run.wait(0.2)
        assert polls == []

        other.enqueue([build_record("work")])

        assert has_run.wait(LIMIT)


def test_closing_sends_the_last_ring(place: Place, store: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "NOTIFY_INTERVAL", HOUR)
    monkeypatch.setattr(notifier, "FLUSH_TIMEOUT", LIMIT)
    with psycopg.connect(place.server, autocommit=True) as connection:
        connection.execute(f"listen {channel_of(place.schema)}".encode())
        store.enqueue([build_record(queue="mail")])
        (first,) = connection.notifies(timeout=LIMIT, stop_after=1)

        store.enqueue([build_record(queue="post")])
        store.close()

        (last,) = connection.notifies(timeout=LIMIT, stop_after=1)
    assert [parse_notification(each.payload).queues for each in (first, last)] == [
        frozenset({"mail"}),
        frozenset({"post"}),
    ]


def test_a_fork_listens_by_itself_and_leaves_its_parent_alone(place: Place) -> None:
    command = [sys.executable, "-m", "tests.postgres.forked", place.url]

    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)

    assert played.returncode == 0, played.stderr[-3000:]
    assert json.loads(played.stdout) == {"child": 0, "is the same session": True, "is woken": True}
