"""A wait ends as soon as a job becomes claimable; without wake-ups, polling still finds the job."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.backends.protocol import Backend
from tenure.backends.redis import Redis
from tenure.backends.shared import waiter
from tenure.core.operations import LONGEST_LEASE, Move
from tenure.errors import StoreUnavailable
from tenure.testing.conformance.building import (
    Taken,
    build_failure,
    build_record,
    build_release,
    build_snooze,
    request,
    settle,
    take_one,
)
from tests.servers.servers import Servers
from tests.stores.waiting import HOUR, LIMIT, started_wait
from tests.stores.wakeups import (
    EVERYWHERE,
    ON_SERVERS,
    OWN_SERVERS,
    Home,
    OwnHome,
    ServerHome,
    new_home,
    new_own_home,
    new_server_home,
)
from tests.worker.looking import until


@pytest.fixture(params=EVERYWHERE)
def home(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Home[Any]]:
    with new_home(request.param, servers) as home:
        yield home


@pytest.fixture(params=ON_SERVERS)
def server_home(request: pytest.FixtureRequest, servers: Servers) -> Iterator[ServerHome[Any]]:
    with new_server_home(request.param, servers) as home:
        yield home


@pytest.fixture(params=OWN_SERVERS)
def own_home(request: pytest.FixtureRequest, servers: Servers) -> Iterator[OwnHome]:
    with new_own_home(request.param, servers) as home:
        yield home


@pytest.fixture
def store(home: Home[Any], monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A handle that receives notifications; its waits poll once, and then only after an hour."""
    store: Backend = home.open()
    home.listen(store)
    monkeypatch.setattr(waiter, "LONGEST_POLL", HOUR)
    return store


@pytest.fixture
def other(home: Home[Any]) -> Backend:
    """A second handle on the store, as in another process."""
    other: Backend = home.open()
    return other


def enqueue(store: Backend, _: Taken) -> None:
    store.enqueue([build_record(queue="mail")])


def enqueue_for_soon(store: Backend, _: Taken) -> None:
    store.enqueue([build_record(queue="mail", delay=0.01)])


def release(store: Backend, held: Taken) -> None:
    settle(store, build_release(held))


def snooze(store: Backend, held: Taken) -> None:
    settle(store, build_snooze(held, 0.01))


def settle_and_claim_elsewhere(store: Backend, held: Taken) -> None:
    store.exchange([build_release(held)], request(queues=("other",)))


def give_up_the_worker(store: Backend, held: Taken) -> None:
    store.reap(worker=held.job.worker)


def retry(store: Backend, held: Taken) -> None:
    settle(store, build_failure(held, final=True))
    store.move([held.id], Move.RETRY)


@pytest.mark.parametrize(
    "act",
    [enqueue, enqueue_for_soon, release, snooze, settle_and_claim_elsewhere, give_up_the_worker, retry],
)
def test_a_change_that_makes_a_job_claimable_ends_a_wait_of_another_handle(
    home: Home[Any], store: Backend, other: Backend, act: Callable[[Backend, Taken], None]
) -> None:
    other.enqueue([build_record(queue="mail")])
    # An expired lease would end the wait as well.
    held = take_one(other, lease=LONGEST_LEASE)

    with home.waiting(store, "mail") as thread:
        act(other, held)

    assert not thread.is_alive()


def test_resuming_a_queue_ends_a_wait_of_another_handle(home: Home[Any], store: Backend, other: Backend) -> None:
    other.enqueue([build_record(queue="mail")])
    other.pause(["mail"])

    with home.waiting(store, "mail") as thread:
        other.resume(["mail"])

    assert not thread.is_alive()


def test_a_job_that_comes_between_two_waits_ends_the_second(home: Home[Any], store: Backend, other: Backend) -> None:
    store.wait(["mail"], None, 0.01)
    other.enqueue([build_record(queue="mail")])
    home.hear_call(store, "mail")

    second = started_wait(store, ["mail"])
    second.join(LIMIT)

    assert not second.is_alive()


def test_closing_ends_a_wait(home: Home[Any], store: Backend) -> None:
    with home.waiting(store, "mail") as thread:
        store.close()

    assert not thread.is_alive()


def test_closing_during_a_wait_leaves_neither_threads_nor_connections(
    server_home: ServerHome[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server_home.let_closing_take_time(monkeypatch)
    before = set(threading.enumerate())
    store = server_home.open()
    server_home.listen(store)
    store.enqueue([build_record()])

    with server_home.waiting(store, "mail"):
        connected = server_home.connections()
        store.close()

    assert not [each.name for each in {*threading.enumerate()} - before if each.name.startswith("tenure-")]
    assert connected >= 2
    until(lambda: server_home.connections() == 0)


def test_polling_finds_a_job_if_no_wake_up_is_heard(
    server_home: ServerHome[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_home.listener, "ensure_listening", lambda _: None)
    store, other = server_home.open(), server_home.open()

    with server_home.waiting(store, "mail") as thread:
        other.enqueue([build_record(queue="mail")])

    assert not thread.is_alive()


def test_a_wait_outlives_a_restart_of_the_server(own_home: OwnHome) -> None:
    store = own_home.home.open()
    own_home.home.listen(store)

    with own_home.home.waiting(store, "mail") as thread:
        own_home.server.kill()
        own_home.server.start()
        is_waiting_after_the_restart = thread.is_alive()
        own_home.home.open().enqueue([build_record(queue="mail")])

    assert is_waiting_after_the_restart
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("kind", "url"),
    [(PostgreSQL, "postgresql://postgres@127.0.0.1:1/postgres"), (Redis, "redis://127.0.0.1:1/0")],
    ids=["postgres", "redis"],
)
def test_a_wait_at_a_server_that_is_away_raises_with_its_address(kind: type[PostgreSQL | Redis], url: str) -> None:
    store = kind(url)

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        store.wait(None, None, 0.05)

    store.close()
