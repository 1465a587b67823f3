"""A job is found as soon as somebody rings, and found all the same when nobody can."""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tenure.backends import watches
from tenure.backends.postgres import PostgreSQL, listening
from tenure.backends.postgres.listening import Listener
from tenure.backends.postgres.ringing import channel_of, ring_of
from tenure.core.operations import Move
from tenure.errors import StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import Taken, entry, failed, released, request, settle, snoozed, take, take_one
from tests.postgres.stores import Place
from tests.postgres.waiting import HOUR, LONG, listen, waiting
from tests.servers.postgres import OwnServer
from tests.worker.looking import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def other(place: Place) -> Iterator[PostgreSQL]:
    """Another handle on the store, as another process has it."""
    other = place.open()
    yield other
    other.close()


@pytest.fixture
def hears(store: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store hears wake-ups, and looks by itself only once."""
    listen(store)
    monkeypatch.setattr(watches, "LONGEST_POLL", HOUR)


def enqueue(store: PostgreSQL, _: Taken) -> None:
    store.enqueue([entry(queue="mail")])


def enqueue_for_soon(store: PostgreSQL, _: Taken) -> None:
    store.enqueue([entry(queue="mail", delay=0.01)])


def release(store: PostgreSQL, held: Taken) -> None:
    settle(store, released(held))


def snooze(store: PostgreSQL, held: Taken) -> None:
    settle(store, snoozed(held, 0.01))


def settle_and_claim_elsewhere(store: PostgreSQL, held: Taken) -> None:
    store.exchange([released(held)], request(queues=("other",)))


def give_up_the_worker(store: PostgreSQL, held: Taken) -> None:
    store.reap(worker=held.job.worker)


def retry(store: PostgreSQL, held: Taken) -> None:
    settle(store, failed(held, final=True))
    store.move([held.id], Move.RETRY)


@pytest.mark.parametrize(
    "act",
    [enqueue, enqueue_for_soon, release, snooze, settle_and_claim_elsewhere, give_up_the_worker, retry],
)
@pytest.mark.usefixtures("hears")
def test_what_makes_a_job_claimable_elsewhere_ends_a_wait(
    store: PostgreSQL, other: PostgreSQL, act: Callable[[PostgreSQL, Taken], None]
) -> None:
    other.enqueue([entry(queue="mail")])
    held = take_one(other)
    with waiting(store, "mail") as thread:
        act(other, held)

    assert not thread.is_alive()


@pytest.mark.usefixtures("hears")
def test_a_queue_that_is_resumed_elsewhere_ends_a_wait(store: PostgreSQL, other: PostgreSQL) -> None:
    other.enqueue([entry(queue="mail")])
    other.pause(["mail"])
    with waiting(store, "mail") as thread:
        other.resume(["mail"])

    assert not thread.is_alive()


@pytest.mark.usefixtures("hears")
def test_a_job_that_comes_between_two_waits_ends_the_second(store: PostgreSQL, other: PostgreSQL) -> None:
    store.wait(["mail"], None, 0.01)
    watch = store._wakeups._watches.of(["mail"], None)

    other.enqueue([entry(queue="mail")])
    until(lambda: watch._is_called)

    waiting = threading.Thread(target=store.wait, args=(["mail"], None, HOUR), daemon=True)
    waiting.start()
    waiting.join(LONG)
    assert not waiting.is_alive()


def test_a_wait_in_the_same_process_is_ended_though_nothing_is_heard(
    store: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening.Listener, "attend", lambda _: None)
    monkeypatch.setattr(watches, "SHORTEST_POLL", HOUR)

    with waiting(store, "mail") as thread:
        store.enqueue([entry(queue="mail")])

    assert not thread.is_alive()


def test_a_job_is_found_though_nothing_is_heard(
    store: PostgreSQL, other: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening.Listener, "attend", lambda _: None)

    with waiting(store, "mail") as thread:
        other.enqueue([entry(queue="mail")])

    assert not thread.is_alive()


def test_a_ring_names_the_queues_of_jobs_that_are_due_soon(place: Place, store: PostgreSQL) -> None:
    heard: set[str] = set()
    with psycopg.connect(place.server, autocommit=True) as connection:
        connection.execute(f"listen {channel_of(place.schema)}".encode())

        store.enqueue([entry(queue="later", delay=60)])
        store.enqueue([entry(queue="mail"), entry(queue="post", delay=0.5)])
        for notification in connection.notifies(timeout=LONG, stop_after=1):
            heard |= ring_of(notification.payload).queues or set()

    assert heard == {"mail", "post"}


def test_a_listener_that_is_cut_off_listens_again(place: Place, store: PostgreSQL, other: PostgreSQL) -> None:
    listen(store)

    place.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where query like %s", f"listen%{place.schema}%"
    )
    until(lambda: not store._wakeups._listener.hears)

    listen(store)
    with waiting(store, "mail") as thread:
        other.enqueue([entry(queue="mail")])
    assert not thread.is_alive()


def test_a_listener_that_is_cut_off_says_so_in_one_line_and_when_it_hears_again(
    place: Place, store: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    listen(store)

    place.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where query like %s", f"listen%{place.schema}%"
    )
    until(lambda: len(caplog.records) == 2)

    cut_off, again = [record.message for record in caplog.records]
    assert cut_off.startswith("wake-ups are not heard, and jobs are found by looking: ")
    assert "\n" not in cut_off
    assert again == "wake-ups are heard"


def test_a_listener_that_hears_nothing_of_itself_is_not_relied_on(
    store: PostgreSQL, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(listening, "PROOF", 0.5)
    changes: list[bool] = []
    address = store.database.address
    # As behind a pooler that gives each transaction another session.
    listener = Listener(
        address,
        "a",
        connect=address.connect,
        ring=lambda _: None,
        heard=lambda _: None,
        changed=lambda: changes.append(listener.hears),
    )

    listener.attend()
    until(lambda: changes)
    listener.close()

    assert changes == [False]
    assert [record.message for record in caplog.records] == [
        "wake-ups are not heard, and jobs are found by looking: a ring was not heard within 0.5 s"
    ]


def test_a_listener_proves_itself_again_after_a_silence(store: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "SILENCE", 0.01)
    listen(store)
    rings = store._wakeups._listener
    sent: list[None] = []

    def ring_to_nobody(_: object) -> None:
        sent.append(None)

    monkeypatch.setattr(listening, "PROOF", 0.1)
    monkeypatch.setattr(rings, "_ring", ring_to_nobody)

    until(lambda: sent and not rings.hears)


def test_a_listener_ends_when_nobody_waits_any_more(store: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "LINGER", 0.01)

    store.wait(["mail"], None, 0.001)

    until(lambda: store._wakeups._listener._thread is None)


def test_a_lease_that_ran_out_is_told_once_though_its_holder_is_ending_it(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    store.enqueue([entry(id="slow", queue="mail")])
    take_one(store, lease=5)
    wakeups = store._wakeups
    watch = wakeups._watches.of(None, None)
    clock.advance(4.5)
    assert wakeups._look(watch) == 0.5

    clock.advance(0.5)
    with psycopg.connect(place.server) as connection:
        connection.execute(f"select from {place.schema}.jobs where id = 'slow' for update".encode())
        told = wakeups._look(watch)
        taken = take(store)
        told_again = wakeups._look(watch)

    assert (told, taken, told_again) == (0.0, [], None)
    store.close()


def test_a_wait_at_a_server_that_is_away_says_so() -> None:
    store = PostgreSQL("postgresql://postgres@127.0.0.1:1/postgres")

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        store.wait(None, None, 0.05)

    store.close()


def test_a_wait_outlives_a_restart_of_the_server(own_postgres: OwnServer) -> None:
    store = PostgreSQL(own_postgres.url)
    with waiting(store, "mail") as thread:
        own_postgres.kill()
        own_postgres.start()
        other = PostgreSQL(own_postgres.url)
        other.enqueue([entry(queue="mail")])

    assert not thread.is_alive()
    other.close()
    store.close()


def test_closing_ends_waits_and_leaves_neither_threads_nor_sessions(place: Place, store: PostgreSQL) -> None:
    before = set(threading.enumerate())
    listen(store)
    store.enqueue([entry()])
    with waiting(store, "mail") as thread:
        store.close()

    assert not thread.is_alive()
    assert not [each.name for each in {*threading.enumerate()} - before if each.name.startswith("tenure-")]
    sessions = "select count(*) from pg_stat_activity where query like %s and pid <> pg_backend_pid()"
    until(lambda: place.execute(sessions, f"%{place.schema}%") == [(0,)])


def test_closing_sends_the_last_ring(place: Place, store: PostgreSQL) -> None:
    with psycopg.connect(place.server, autocommit=True) as connection:
        connection.execute(f"listen {channel_of(place.schema)}".encode())

        store.enqueue([entry(queue="mail")])
        store.close()

        (heard,) = connection.notifies(timeout=LONG, stop_after=1)
    assert ring_of(heard.payload).queues == frozenset({"mail"})


def test_a_fork_listens_by_itself_and_leaves_its_parent_alone(place: Place) -> None:
    command = [sys.executable, "-m", "tests.postgres.forked", place.url]

    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)

    assert played.returncode == 0, played.stderr[-3000:]
    assert json.loads(played.stdout) == {"child": 0, "is the same session": True, "is woken": True}
