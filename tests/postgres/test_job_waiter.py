"""NOTIFY wakes waiting stores, and a listener detects whether it receives notifications.

tests/stores/test_wakeups.py has the tests common to all stores.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure.backends.postgres import PostgreSQL, notifier
from tenure.backends.postgres import listener as listening
from tenure.backends.postgres.listener import Listener
from tenure.backends.postgres.notifier import channel_of, parse_notification
from tenure.backends.shared import waiter
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, take, take_one
from tests.postgres.stores import Place
from tests.postgres.waiting import HOUR, LIMIT, listen, waiting
from tests.servers.postgres import Server
from tests.servers.servers import Servers
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
