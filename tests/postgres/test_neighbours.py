"""A job that cannot be locked, settled or read delays only itself."""

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
from psycopg.errors import ProgramLimitExceeded, QueryCanceled, SerializationFailure

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.batch_limit import BatchLimit
from tenure.core.job import State
from tenure.core.operations import (
    BUSY,
    LARGEST_BATCH,
    ClaimRequest,
    Extension,
    HoldStatus,
    Move,
    Query,
    Settled,
    Unsettled,
)
from tenure.errors import SchemaOutdated, StoreUnavailable
from tenure.testing.conformance.building import (
    build_completion,
    build_record,
    build_release,
    exchange,
    ids_of,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.postgres.stores import Place
from tests.processes.stage import until

IDS = ["one", "two", "three", "four"]
WAITING = "select pid from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"
LOCK_TWO = "select from S.jobs where id = 'two' for update"


def given(store: PostgreSQL) -> None:
    store.enqueue([build_record(id=id) for id in IDS])


def test_a_locked_job_is_busy_and_the_others_are_settled(place: Place, store: PostgreSQL) -> None:
    given(store)
    taken = take(store, limit=4)

    with place.begun(LOCK_TWO):
        one, two, three, four = taken
        settled = store.settle(
            [build_completion(one), build_completion(two), build_release(three), build_release(four)]
        )

    assert settled == [True, BUSY, True, True]
    assert [job_of(store, id).state for id in IDS] == ["completed", "running", "queued", "queued"]
    assert settle(store, build_completion(two)) is True


def test_a_release_of_a_locked_job_is_busy(place: Place, store: PostgreSQL) -> None:
    given(store)
    taken = take(store, limit=4)

    with place.begun(LOCK_TWO):
        settled = store.settle([build_release(each) for each in taken])

    assert settled == [True, BUSY, True, True]


def test_a_locked_job_is_busy_and_the_other_leases_are_extended(place: Place, store: PostgreSQL) -> None:
    given(store)
    taken = take(store, limit=4)

    with place.begun(LOCK_TWO):
        statuses = store.extend([Extension(hold=each.hold, lease=600) for each in taken])

    held = HoldStatus.HELD
    assert statuses == [held, HoldStatus.BUSY, held, held]


def test_a_stale_settlement_of_a_locked_job_is_lost_not_busy(place: Place, store: PostgreSQL) -> None:
    given(store)
    one, two = take(store, limit=2)
    settle(store, build_release(two))
    take(store, limit=4)

    with place.begun(LOCK_TWO):
        settled = store.settle([build_completion(one), build_completion(two)])
        statuses = store.extend([Extension(hold=two.hold, lease=60)])

    assert settled == [True, False]
    assert statuses == [HoldStatus.LOST]


def test_a_busy_settlement_is_not_counted_as_refused(place: Place, store: PostgreSQL) -> None:
    given(store)
    taken = take(store, limit=4)

    with place.begun(LOCK_TWO):
        store.settle([build_completion(each) for each in taken])

    assert {each.event for each in store.counts(60)} == {"enqueued", "claimed", "completed"}


def test_an_exchange_does_not_wait_for_a_locked_job(place: Place, store: PostgreSQL) -> None:
    given(store)
    one, two = take(store, limit=2)

    with place.begun(LOCK_TWO):
        settled, claimed = exchange(store, [build_completion(one), build_completion(two)], request(limit=4))

    assert settled == [True, BUSY]
    assert ids_of(claimed.jobs) == ["three", "four"]


def test_a_completion_that_the_server_rejects_fails_its_job_alone(place: Place, store: PostgreSQL) -> None:
    given(store)
    place.execute("alter table S.finished add constraint mine check (id <> 'two')")
    taken = take(store, limit=3)

    settled, claimed = exchange(store, [build_completion(each) for each in taken], request(limit=4))

    assert settled[0] is settled[2] is True
    assert isinstance(settled[1], Unsettled)
    assert settled[1].is_failed
    assert ids_of(claimed.jobs) == ["four"]
    job = job_of(store, "two")
    assert job.state is State.FAILED
    assert "violates check constraint" in job.errors[-1]


def test_operations_that_wait_for_locks_do_not_keep_leases_from_being_extended(place: Place) -> None:
    with closing(place.open(f"&connections=2&timeout=20&application_name={place.schema}")) as store:
        given(store)
        taken = take_one(store)
        with place.begun("lock table S.history in exclusive mode"):
            waiting = [
                threading.Thread(target=store.move, args=([id], Move.CANCEL), daemon=True) for id in ("two", "three")
            ]
            for thread in waiting:
                thread.start()
            until(lambda: len(place.execute(WAITING, place.schema)) == 2)
            statuses = store.extend([Extension(hold=taken.hold, lease=60)])
        for thread in waiting:
            thread.join(60)

    assert statuses == [HoldStatus.HELD]


class Server:
    """Responds to requests for at most `room` jobs; a larger response raises an error caused by `cause`."""

    def __init__(self, room: int, cause: Exception) -> None:
        self.room = room
        self.due = LARGEST_BATCH
        self.limits: list[int] = []
        self._cause = cause

    def send(self, request: ClaimRequest) -> range:
        self.limits.append(request.limit)
        if request.limit > self.room:
            raise StoreUnavailable("the response is too large") from self._cause
        return range(min(request.limit, self.due))


def response_to(limit: BatchLimit, server: Server, most: int) -> int:
    """Send a request for at most this number of jobs; return the number of jobs in the response."""
    return len(limit.run(request(limit=most), server.send, len))


def test_a_response_that_is_too_large_is_requested_again_with_half_of_the_jobs() -> None:
    limit, server = BatchLimit(timeout=10), Server(300, ProgramLimitExceeded())

    first = response_to(limit, server, 1_000)
    server.room = 1_000
    later = [response_to(limit, server, 1_000) for _ in range(3)]

    assert (first, server.limits[:3]) == (250, [1_000, 500, 250])
    assert later == [500, 1_000, 1_000]


def test_a_response_that_takes_too_long_is_half_as_large_at_the_next_request() -> None:
    limit, server = BatchLimit(timeout=10), Server(5, QueryCanceled())

    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            response_to(limit, server, 20)
    landed = response_to(limit, server, 20)

    assert (landed, server.limits) == (5, [20, 10, 5])


def test_a_request_for_one_job_that_takes_too_long_leaves_room_for_one() -> None:
    limit = BatchLimit(timeout=10)

    with pytest.raises(StoreUnavailable):
        response_to(limit, Server(0, QueryCanceled()), 1)

    assert limit.most == 1


def test_the_failure_of_an_older_request_does_not_allow_larger_responses() -> None:
    limit = BatchLimit(timeout=10)

    for most in (2, 500):
        limit.lower(most)

    assert limit.most == 2


def test_a_slow_response_is_not_made_larger() -> None:
    limit, server = BatchLimit(timeout=0.0), Server(5, ProgramLimitExceeded())

    assert [response_to(limit, server, 8) for _ in range(3)] == [4, 4, 4]
    assert server.limits == [8, 4, 4, 4]


def test_a_response_with_few_jobs_is_not_made_larger() -> None:
    limit, server = BatchLimit(timeout=10), Server(5, QueryCanceled())
    with pytest.raises(StoreUnavailable):
        response_to(limit, server, 8)
    server.due = 0

    few = [response_to(limit, server, 8) for _ in range(3)]
    server.due = 8

    assert few == [0, 0, 0]
    assert response_to(limit, server, 8) == 4


def test_a_lookup_by_ids_is_whole_although_responses_are_limited(store: PostgreSQL) -> None:
    given(store)
    store._batch_limit.most = 1

    found = store.find(Query(ids=tuple(IDS), newest_first=False))

    assert ids_of(found.jobs) == IDS


def test_one_job_that_is_too_large_is_an_error() -> None:
    with pytest.raises(StoreUnavailable):
        response_to(BatchLimit(timeout=10), Server(0, ProgramLimitExceeded()), 4)


def test_a_queued_job_that_holds_the_key_of_a_joined_enqueue_is_not_claimed_before_the_commit(
    place: Place, store: PostgreSQL
) -> None:
    store.enqueue([build_record(id="one", key="order-7"), build_record(id="two")])

    with psycopg.connect(place.server) as connection, store.join(connection) as joined:
        (enqueued,) = joined.enqueue([build_record(id="new", key="order-7")])
        before = ids_of(take(store, limit=4))
        connection.commit()
        after = ids_of(take(store, limit=4))

    assert (enqueued.id, enqueued.created) == ("one", False)
    assert before == ["two"]
    assert after == ["one"]


def test_joined_settlements_lock_jobs_in_one_order_and_do_not_deadlock(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record(id="a"), build_record(id="b")])
    first, second = take(store, limit=2)
    settled: list[Settled] = []

    def settle_both() -> None:
        url = f"{place.server}{'&' if '?' in place.server else '?'}application_name={place.schema}"
        with psycopg.connect(url) as db, store.join(db) as joined:
            settled.extend(joined.settle([build_completion(second), build_completion(first)]))

    with place.begun("select from S.jobs where id = 'a' for update") as other:
        thread = threading.Thread(target=settle_both, daemon=True)
        thread.start()
        until(lambda: place.execute(WAITING, place.schema))
        other.execute(f"select from {place.schema}.jobs where id = 'b' for update".encode())
    thread.join(60)

    assert settled == [True, True]


def test_keys_are_locked_in_one_order_so_that_a_joined_enqueue_does_not_deadlock(
    place: Place, store: PostgreSQL
) -> None:
    store.enqueue([build_record(id="a", key="first"), build_record(id="b", key="second")])
    records = [build_record(key="second"), build_record(key="first")]
    enqueued: list[str] = []

    def enqueue() -> None:
        url = f"{place.server}{'&' if '?' in place.server else '?'}application_name={place.schema}"
        with psycopg.connect(url) as db, store.join(db) as joined:
            enqueued.extend(each.id for each in joined.enqueue(records))

    with place.begun("select from S.jobs where id = 'a' for update") as other:
        thread = threading.Thread(target=enqueue, daemon=True)
        thread.start()
        until(lambda: place.execute(WAITING, place.schema))
        other.execute(f"select from {place.schema}.jobs where id = 'b' for update".encode())
    thread.join(60)

    assert enqueued == ["b", "a"]


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_a_claim_that_was_lost_before_the_snapshot_is_lost(place: Place, store: PostgreSQL, level: str) -> None:
    store.enqueue([build_record(id="one"), build_record(id="two")])
    first, second = take(store, limit=2)
    settle(store, build_release(first))
    take_one(store)
    settle(store, build_completion(second))

    with psycopg.connect(place.server) as connection:
        connection.isolation_level = psycopg.IsolationLevel[level]
        with store.join(connection) as joined:
            settled = joined.settle([build_completion(first)])
            statuses = joined.extend([Extension(hold=each.hold, lease=60) for each in (first, second)])

    assert settled == [False]
    assert statuses == [HoldStatus.LOST] * 2


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_a_claim_that_is_newer_than_the_snapshot_raises_a_serialization_failure(
    place: Place, store: PostgreSQL, level: str
) -> None:
    with psycopg.connect(place.server) as connection:
        connection.isolation_level = psycopg.IsolationLevel[level]
        connection.execute("select 1")
        store.enqueue([build_record()])
        taken = take_one(store)
        with store.join(connection) as joined, pytest.raises(SerializationFailure, match="older than the claim"):
            joined.settle([build_completion(taken)])
        connection.rollback()
        connection.execute("select 1")
        store.enqueue([build_record()])
        later = take_one(store)
        with store.join(connection) as joined, pytest.raises(SerializationFailure, match="older than the claim"):
            joined.extend([Extension(hold=later.hold, lease=60)])
        connection.rollback()
        with store.join(connection) as joined:
            settled = joined.settle([build_completion(taken), build_completion(later)])

    assert settled == [True, True]


def test_an_extension_uses_no_second_connection_while_the_first_is_free(place: Place, store: PostgreSQL) -> None:
    given(store)
    with closing(place.open(f"&application_name={place.schema}")) as own:
        taken = take_one(own)
        own.extend([Extension(hold=taken.hold, lease=60)])
        sessions = place.execute("select pid from pg_stat_activity where application_name = %s", place.schema)

    assert len(sessions) == 1


def test_a_settlement_that_takes_too_long_fails_no_job(place: Place, store: PostgreSQL) -> None:
    given(store)
    taken = take_one(store)

    with (
        closing(place.open("&timeout=0.5")) as hasty,
        place.begun("lock table S.finished in exclusive mode"),
        pytest.raises(StoreUnavailable),
    ):
        hasty.settle([build_completion(taken)])

    assert job_of(store, "one").state is State.RUNNING
    assert settle(store, build_completion(taken)) is True


def test_an_outdated_schema_raises_and_fails_no_job(place: Place, store: PostgreSQL) -> None:
    given(store)
    taken = take_one(store)
    place.execute("alter table S.finished rename to renamed")

    with pytest.raises(SchemaOutdated):
        store.settle([build_completion(taken)])

    place.execute("alter table S.renamed rename to finished")
    assert settle(store, build_completion(taken)) is True


REQUESTS: dict[str, Callable[[PostgreSQL], list[str]]] = {
    "claim": lambda store: ids_of(store.claim(request(limit=4)).jobs),
    "exchange": lambda store: ids_of(exchange(store, [], request(limit=4))[1].jobs),
    "find": lambda store: ids_of(store.find(Query(limit=4, newest_first=False)).jobs),
}


@pytest.mark.parametrize("send", REQUESTS.values(), ids=list(REQUESTS))
def test_after_a_request_that_took_too_long_the_next_one_gets_half_of_the_jobs(
    place: Place, store: PostgreSQL, send: Callable[[PostgreSQL], list[str]]
) -> None:
    given(store)

    with closing(place.open("&timeout=0.5")) as hasty:
        with place.begun("lock table S.jobs in access exclusive mode"), pytest.raises(StoreUnavailable):
            send(hasty)

        assert send(hasty) == ["one", "two"]
