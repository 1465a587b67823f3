"""Errors on a running server: terminated sessions, locked rows, connection limits, missing rights."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.backend import CONCURRENT_SETTLE_MINIMUM
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.statements import make_statement
from tenure.core.operations import BUSY, Extension, HoldStatus, Move, Settled
from tenure.errors import ConfigurationError, StoreUnavailable
from tenure.testing.conformance.building import (
    as_taken,
    build_completion,
    build_failure,
    build_record,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.postgres.stores import Place
from tests.processes.stage import PATIENCE, until

SESSIONS = "select pid from pg_stat_activity where application_name = %s and backend_type = 'client backend'"
WAITING = f"{SESSIONS} and wait_event_type = 'Lock'"
ALL_LOCKED = "select from S.jobs for update"


@contextmanager
def opened(place: Place, options: str = "") -> Iterator[PostgreSQL]:
    """Yield an open store with a connection; the schema name is its application name."""
    store = place.open(f"&application_name={place.schema}{options}")
    with closing(store):
        store.stats()
        yield store


def terminate(place: Place, which: str = SESSIONS) -> None:
    """Wait for sessions, terminate them, and return when they are gone."""
    pids = until(lambda: place.execute(which, place.schema))
    for (pid,) in pids:
        place.execute("select pg_terminate_backend(%s)", pid)
    until(lambda: not set(pids) & set(place.execute(SESSIONS, place.schema)))


@contextmanager
def database(place: Place, options: str = "") -> Iterator[Place]:
    """Create a separate database, named after the schema."""
    place.execute(f"create database {place.schema} {options}")
    yield Place(place.server.replace("/postgres?", f"/{place.schema}?", 1), place.schema)
    place.execute(f"drop database {place.schema} with (force)")


@pytest.fixture
def role(empty_place: Place) -> Iterator[str]:
    """A role with a limit of one connection, which creates the store itself."""
    name = empty_place.schema
    empty_place.execute(f"create role {name} login connection limit 1; grant create on database postgres to {name}")
    yield name
    empty_place.execute(f"drop owned by {name} cascade; drop role {name}")


def test_an_idle_connection_that_was_ended_is_noticed_before_it_is_used(place: Place) -> None:
    with opened(place) as store:
        terminate(place)

        # Not repeatable: this must succeed at once.
        assert store.reap() == []


def test_an_operation_whose_session_is_ended_while_it_waits_is_done_on_another(place: Place) -> None:
    with opened(place) as store:
        store.enqueue([build_record(id="one")])
        taken = take_one(store)
        settled: list[Settled] = []
        with place.begun("lock table S.history"):
            asking = threading.Thread(
                target=lambda: settled.append(settle(store, build_failure(taken, final=True))), daemon=True
            )
            asking.start()
            terminate(place, WAITING)
        asking.join(PATIENCE)

        assert settled == [True]
        assert job_of(store, "one").state == "failed"


def test_an_operation_that_may_not_be_repeated_tells_why_its_session_was_ended(place: Place) -> None:
    with opened(place) as store:
        store.enqueue([build_record(id="one")])
        ending = threading.Thread(target=terminate, args=(place, WAITING), daemon=True)
        with place.begun(ALL_LOCKED):
            ending.start()
            with pytest.raises(StoreUnavailable, match="terminating connection due to administrator command"):
                store.move(["one"], Move.CANCEL)
        ending.join(PATIENCE)

        assert job_of(store, "one").state == "queued"


def test_a_move_waits_for_a_locked_job_as_long_as_the_url_says_and_a_worker_never_waits(place: Place) -> None:
    with opened(place) as store, closing(place.open("&timeout=0.5")) as impatient:
        store.enqueue([build_record(id="one"), build_record(id="two")])
        taken = take_one(store)
        with place.begun(ALL_LOCKED):
            with pytest.raises(StoreUnavailable, match=r"took more than 0\.5 s: .* or raise '\?timeout='"):
                impatient.move(["two"], Move.CANCEL)
            assert store.settle([build_completion(taken)]) == [BUSY]
            assert store.extend([Extension(hold=taken.hold, lease=60)]) == [HoldStatus.BUSY]
            assert take(store) == []
            assert job_of(store, "one").state == "running"

        assert settle(store, build_completion(taken))


def test_a_server_without_room_for_another_connection_says_so(empty_place: Place, role: str) -> None:
    named = Place(empty_place.server.replace("postgres@", f"{role}@", 1), empty_place.schema)
    with opened(named), pytest.raises(StoreUnavailable, match="too many connections for role"):
        named.open("&timeout=1").stats()

    until(lambda: not empty_place.execute(SESSIONS, empty_place.schema))
    with opened(named) as store:
        assert store.stats().rows == ()


def test_many_completions_and_a_claim_need_no_more_than_the_one_connection_that_the_server_gives(
    empty_place: Place, role: str
) -> None:
    named = Place(empty_place.server.replace("postgres@", f"{role}@", 1), empty_place.schema)
    with opened(named) as store:
        store.enqueue([build_record() for _ in range(2 * CONCURRENT_SETTLE_MINIMUM)])
        asked = request(limit=CONCURRENT_SETTLE_MINIMUM)
        claimed = store.claim(asked)
        taken = [as_taken(job, asked) for job in claimed.jobs]

        landed, further = store.exchange(
            [build_completion(each) for each in taken], request(limit=CONCURRENT_SETTLE_MINIMUM, hint=claimed.hint)
        )

        assert all(landed)
        assert len(further.jobs) == CONCURRENT_SETTLE_MINIMUM


def test_connections_that_are_all_in_use_are_waited_for_as_long_as_the_url_says(place: Place) -> None:
    with opened(place, "&connections=1&timeout=2") as store:
        with (
            store.database._pool.connection(),
            pytest.raises(StoreUnavailable, match=r"all 1 connections to .* were in use for 2 s"),
        ):
            store.stats()

        assert store.stats().rows == ()


def test_who_waits_for_a_connection_gets_the_next_that_is_given_back(place: Place) -> None:
    with opened(place, "&connections=1") as store:
        with store.database._pool.connection():
            waiting = [threading.Thread(target=store.enqueue, args=([build_record()],), daemon=True) for _ in range(10)]
            for thread in waiting:
                thread.start()
        for thread in waiting:
            thread.join(PATIENCE)

        assert store.stats().total("due") == 10


def test_a_session_that_may_only_read_by_default_writes_all_the_same(place: Place) -> None:
    with opened(place), opened(place, "&options=-c%20default_transaction_read_only%3Don") as store:
        store.enqueue([build_record(id="one")])

        assert settle(store, build_completion(take_one(store)))


def test_tables_that_cannot_be_made_for_lack_of_the_right_to_write_are_told(empty_place: Place) -> None:
    store = empty_place.open("&options=-c%20default_transaction_read_only%3Don")

    with pytest.raises(StoreUnavailable, match="is read-only: cannot execute CREATE SCHEMA"):
        store.stats()


def test_a_role_that_does_not_exist_is_told(place: Place) -> None:
    store = Place(place.server.replace("postgres@", "nobody-here@", 1), place.schema).open()

    with pytest.raises(StoreUnavailable, match=r'cannot log in to .*role "nobody-here" does not exist; check user'):
        store.stats()


def test_what_a_statement_that_failed_kept_from_being_prepared_is_prepared_later(place: Place) -> None:
    with opened(place) as patient, opened(place, "&timeout=2") as store:
        patient.enqueue([build_record(id="one")])
        with place.begun(ALL_LOCKED), pytest.raises(StoreUnavailable, match="took more than"):
            store.move(["one"], Move.CANCEL)

        store.move(["one"], Move.CANCEL)

        with store.database._pool.connection() as wire:
            assert wire.uses_prepare
        assert job_of(store, "one").state == "cancelled"


def test_a_server_that_goes_on_forgetting_what_is_prepared_is_told(place: Place) -> None:
    with opened(place) as store, pytest.raises(StoreUnavailable, match='"forgotten" does not exist'):
        store.database.execute([BoundQuery(make_statement("execute forgotten"))])


def test_odd_defaults_of_a_database_change_nothing(place: Place) -> None:
    odd = ["array_nulls=off", "extra_float_digits=-15", "timezone='Asia/Kolkata'", "datestyle='German'"]
    with database(place) as elsewhere:
        for setting in odd:
            place.execute(f"alter database {place.schema} set {setting}")
        store = elsewhere.open()
        store.enqueue([build_record(id="one", queue='null{"\\', timeout=0.123456789, payload={"text": "null\n"})])

        taken = take_one(store)

        job = job_of(store, "one")
        assert (job.queue, job.key, job.timeout, job.payload) == ('null{"\\', None, 0.123456789, {"text": "null\n"})
        assert settle(store, build_completion(taken))
        store.close()


def test_a_database_that_cannot_keep_every_character_is_refused(place: Place) -> None:
    with database(place, "encoding 'LATIN1' locale 'C' template template0") as elsewhere:
        store = elsewhere.open()

        with pytest.raises(ConfigurationError, match="has encoding 'LATIN1', which cannot store every character"):
            store.stats()

        store.close()
