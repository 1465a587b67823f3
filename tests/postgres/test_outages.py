"""A server is restarted, killed or a standby: commits persist, and an open store recovers."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager

import psycopg
import pytest

import tenure
from tenure.backends.postgres import PostgreSQL
from tenure.core.operations import HoldStatus, Query
from tenure.errors import StoreUnavailable
from tenure.testing.conformance.building import (
    build_completion,
    build_record,
    extend,
    ids_of,
    request,
    settle,
    take,
    take_one,
)
from tests.postgres.proxy import Proxy
from tests.postgres.stores import Place
from tests.processes.stage import PATIENCE, until
from tests.servers import cluster
from tests.servers.postgres import OwnServer, Server
from tests.servers.servers import Servers
from tests.tiers import first_in_all_tiers, only_in_all

ENDS: Mapping[str, Callable[[OwnServer], None]] = {
    "stopped": lambda server: server.stop("fast"),
    "stopped at once": lambda server: server.stop("immediate"),
    "killed": lambda server: server.kill(),
}

ARCHIVE = {"restore_command": "until [ -e gate ]; do sleep 0.01; done; false"}
"""Settings of a server in recovery that keeps starting up until a gate file exists."""

HAS_ASKED = "select true from pg_stat_activity where application_name = %s and query like 'begin%%'"

OUTAGE = 2.0
"""Length of the outage in seconds: several retries of a worker."""


@contextmanager
def opened(server: OwnServer, timeout: float = 60, name: str = "tenure") -> Iterator[PostgreSQL]:
    """Yield an open store with a connection of a known application name."""
    store = PostgreSQL(f"{server.url}?timeout={timeout:g}&application_name={name}")
    with closing(store):
        # With a short timeout, connecting may need more than one attempt on a loaded machine.
        until(lambda: not refusal(store.stats))
        yield store


def stored(store: PostgreSQL) -> list[str]:
    return sorted(ids_of(store.find(Query()).jobs))


def refusal(action: Callable[[], object]) -> str:
    """Return the error of an unavailable store, or an empty string."""
    try:
        action()
    except StoreUnavailable as exc:
        return str(exc)
    return ""


def in_a_thread(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("end", first_in_all_tiers(ENDS))
def test_a_handle_is_told_of_an_outage_and_goes_on_after_it_with_all_that_was_committed_and_held(
    own_postgres: OwnServer, end: str
) -> None:
    """Slow: a server stops and starts."""
    with opened(own_postgres) as store, opened(own_postgres, timeout=0.5) as impatient:
        store.enqueue([build_record(id="one"), build_record(id="two")])
        asked = request()
        taken = store.claim(asked)
        held = take_one(store)
        actions = [
            lambda: impatient.enqueue([build_record(id="three")]),
            lambda: take(impatient),
            lambda: settle(impatient, build_completion(held)),
            impatient.reap,
        ]

        ENDS[end](own_postgres)
        refusals = [refusal(action) for action in actions]
        own_postgres.start()

        assert ["Connection refused" in each for each in refusals] == [True] * len(actions)
        # Not repeatable, but succeeds at once: the pool detects that the old connection is dead.
        assert store.reap() == []
        assert store.claim(asked) == taken
        assert extend(store, held.hold) == HoldStatus.HELD
        assert settle(store, build_completion(held))
        assert stored(store) == ["one", "two"]


def test_what_is_asked_while_the_server_is_restarted_is_done_when_it_is_up(own_postgres: OwnServer) -> None:
    with opened(own_postgres) as store:
        own_postgres.kill()
        asking = in_a_thread(lambda: store.enqueue([build_record(id="one")]))

        own_postgres.start()

        asking.join(PATIENCE)
        assert stored(store) == ["one"]


@only_in_all
@pytest.mark.parametrize("name", cluster.names())
def test_a_server_that_is_starting_up_is_away(servers: Servers, name: str) -> None:
    with servers.alone(name, ARCHIVE) as server, opened(server) as store, opened(server, timeout=0.5) as impatient:
        server.stop()
        (server._data / "recovery.signal").touch()

        def open_the_archive() -> None:
            until(lambda: "the database system is starting up" in refusal(impatient.stats))
            (server._data / "gate").touch()

        opening = in_a_thread(open_the_archive)
        asking = in_a_thread(lambda: store.enqueue([build_record(id="one")]))

        server.start()

        opening.join(PATIENCE)
        asking.join(PATIENCE)
        assert stored(store) == ["one"]


@only_in_all
def test_a_standby_is_told_to_be_read_only_and_is_used_when_it_is_promoted(own_postgres: OwnServer) -> None:
    with opened(own_postgres, name="patient") as store, opened(own_postgres, timeout=0.5) as impatient:
        store.enqueue([build_record(id="one")])
        own_postgres.stop()
        (own_postgres._data / "standby.signal").touch()
        own_postgres.start()

        with pytest.raises(
            StoreUnavailable, match=r"is read-only: .* during recovery; use the URL of the primary server"
        ):
            impatient.enqueue([build_record(id="two")])

        asking = in_a_thread(lambda: store.enqueue([build_record(id="three")]))
        with psycopg.connect(own_postgres.url, autocommit=True) as connection:
            until(lambda: connection.execute(HAS_ASKED, ["patient"]).fetchone())
            connection.execute("select pg_promote()")
        asking.join(PATIENCE)
        assert stored(store) == ["one", "three"]


@only_in_all
def test_a_worker_goes_on_after_an_outage_and_has_said_so_once(
    postgres: Server, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Slow: a server stops and starts, and the worker backs off."""
    begun, may_end = threading.Semaphore(0), threading.Event()
    runs: list[str] = []
    with Proxy(postgres) as proxy, tenure.Jobs(f"{proxy.url_of(place.schema)}&timeout=3") as jobs:

        @jobs.task
        def work() -> None:
            runs.append(tenure.current().id)
            begun.release()
            may_end.wait(PATIENCE)

        ids = jobs.enqueue_many(work.job() for _ in range(20))
        with jobs.worker(concurrency=4, lease=60):
            assert all(begun.acquire(timeout=PATIENCE) for _ in range(4))
            with proxy.refusing():
                proxy.cut_all()
                may_end.set()
                until(lambda: "store unavailable" in caplog.text)
                time.sleep(OUTAGE)
            until(lambda: jobs.stats().total("completed") == 20)

    store = place.open()
    found = store.find(Query()).jobs
    said = [record.message for record in caplog.records if record.message.startswith("store ")]
    assert sorted(runs) == sorted(ids)
    assert {(job.state, job.attempts, job.fence, job.history) for job in found} == {("completed", 1, 1, ())}
    assert sum(count.number for count in store.counts(3600) if count.event == "completed") == 20
    assert len(said) == 2
    assert said[0].startswith("store unavailable, retrying")
    assert said[1].startswith("store available again after")
    store.close()
