"""A connection that is cut at any point of an operation: it is done once, or not at all and told so."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import product

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.wire import COMMIT
from tenure.core.operations import Holding
from tenure.errors import StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    completed,
    entry,
    extend,
    ids_of,
    job_of,
    request,
    settle,
    take,
    take_one,
    taken_by,
)
from tests.operations import NOT_REPEATED, REPEATED, stored
from tests.postgres.operations import given, undisturbed
from tests.postgres.proxy import Proxy
from tests.postgres.stores import Place
from tests.postgres.wire import BIND, COMMAND_COMPLETE, DATA_ROW, SYNC
from tests.processes.stage import until
from tests.proxies.points import Point, after, before, from_client, from_server, within
from tests.servers.postgres import Server, with_schema

CUTS: Mapping[str, Point] = {
    "in the request": within(from_client(type=BIND), number=2),
    "before the commit": before(from_client(COMMIT.name.decode(), BIND)),
    "before the answer to the commit": before(from_server("COMMIT", COMMAND_COMPLETE)),
    "in a result": within(from_server(type=DATA_ROW)),
}

HAVE_HAPPENED = {
    *product(NOT_REPEATED, ["before the answer to the commit"]),
    # All of it is one trip: there is a result when everything is committed.
    ("reap", "in a result"),
    ("purge", "in a result"),
}

WAITING = "select pid from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(place: Place, clock: Clock) -> Iterator[PostgreSQL]:
    """The store, by a way that nobody cuts."""
    store = place.open(clock=clock)
    yield store
    store.close()


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres) as proxy:
        yield proxy


@pytest.fixture
def through(place: Place, proxy: Proxy, clock: Clock) -> Iterator[PostgreSQL]:
    """The store through the proxy, by a connection that is open."""
    with opened(place, proxy, clock) as store:
        yield store


@contextmanager
def opened(place: Place, proxy: Proxy, clock: Clock, options: str = "") -> Iterator[PostgreSQL]:
    store = PostgreSQL(with_schema(proxy.url, place.schema) + options, clock=clock)
    with closing(store):
        store.stats()
        yield store


def in_a_thread(action: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Begin it; what it returns is in the list then."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(action()), daemon=True)
    thread.start()
    return thread, answers


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("operation", REPEATED)
def test_an_operation_that_is_cut_off_goes_on_by_itself_and_is_done_once(
    postgres: Server, store: PostgreSQL, proxy: Proxy, through: PostgreSQL, clock: Clock, operation: str, cut: str
) -> None:
    jobs = given(store, clock)
    made = proxy.cut(CUTS[cut], seen_off=True)

    answer = REPEATED[operation](through, jobs)

    assert made.is_done
    assert (answer, stored(store)) == undisturbed(postgres, REPEATED[operation])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("operation", NOT_REPEATED)
def test_an_operation_that_may_not_be_repeated_is_told_to_be_cut_off_and_is_done_once_or_not(
    postgres: Server, store: PostgreSQL, proxy: Proxy, through: PostgreSQL, clock: Clock, operation: str, cut: str
) -> None:
    jobs = given(store, clock)
    untouched = stored(store)
    _, done = undisturbed(postgres, NOT_REPEATED[operation])
    made = proxy.cut(CUTS[cut], seen_off=True)

    with pytest.raises(StoreUnavailable, match="server closed the connection"):
        NOT_REPEATED[operation](through, jobs)

    assert made.is_done
    assert stored(through) == (done if (operation, cut) in HAVE_HAPPENED else untouched)


def test_a_reset_is_as_any_other_end_of_a_connection(
    postgres: Server, store: PostgreSQL, proxy: Proxy, through: PostgreSQL, clock: Clock
) -> None:
    jobs = given(store, clock)
    made = proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)), reset=True)

    answer = REPEATED["exchange"](through, jobs)

    assert made.is_done
    assert (answer, stored(store)) == undisturbed(postgres, REPEATED["exchange"])


def test_a_key_that_is_asked_for_again_is_not_taken_by_oneself(
    store: PostgreSQL, proxy: Proxy, through: PostgreSQL
) -> None:
    proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))

    through.enqueue([entry(id="new", key="free", on_conflict="raise")])

    assert store.stats().total("due") == 1


def test_jobs_that_are_looked_for_further_down_are_adopted_as_well(
    place: Place, store: PostgreSQL, proxy: Proxy, through: PostgreSQL
) -> None:
    store.enqueue([entry(id=f"{number:02}") for number in range(60)])
    asked = request(limit=4)
    # The first look takes one, and finds all the others locked.
    with place.begun("select from S.jobs where id between '01' and '30' for update"):
        made = proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE), number=2))

        claimed = through.claim(asked)

    assert made.is_done
    assert ids_of(claimed.jobs) == ["00", "31", "32", "33"]
    assert store.claim(asked) == claimed
    assert store.stats().total("running") == 4


def test_a_claim_whose_answer_is_lost_for_good_is_adopted_by_who_asks_again(
    place: Place, store: PostgreSQL, proxy: Proxy, clock: Clock
) -> None:
    store.enqueue([entry(id="one"), entry(id="two")])
    asked = request(limit=1)
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        made = proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))
        with proxy.refusing(), pytest.raises(StoreUnavailable, match="Connection refused"):
            through.claim(asked)

        claimed = through.claim(asked)

    assert made.is_done
    assert [(job.id, job.fence, job.attempts) for job in claimed.jobs] == [("one", 1, 1)]
    assert store.stats().total("running") == 1


def test_a_claim_whose_client_is_gone_runs_out_and_is_somebody_elses(
    place: Place, store: PostgreSQL, proxy: Proxy, clock: Clock
) -> None:
    store.enqueue([entry(id="one")])
    asked = request(lease=60)
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))
        with proxy.refusing(), pytest.raises(StoreUnavailable):
            through.claim(asked)
    before_it_ran_out = take(store)
    lost = taken_by(job_of(store, "one"), asked)

    clock.advance(60)
    taken = take_one(store)

    assert before_it_ran_out == []
    assert (lost.hold.fence, taken.hold.fence) == (1, 2)
    assert extend(store, lost.hold) == Holding.LOST
    assert not settle(store, completed(lost))
    assert settle(store, completed(taken))


@pytest.mark.parametrize(
    ("operation", "trips"),
    [("enqueue", 1), ("enqueue with keys", 3), ("complete", 1), ("fail", 1), ("exchange of many", 1)],
)
def test_what_is_asked_again_while_the_first_request_is_still_under_way_is_done_once(
    postgres: Server, place: Place, store: PostgreSQL, proxy: Proxy, clock: Clock, operation: str, trips: int
) -> None:
    jobs = given(store, clock)
    with (
        opened(place, proxy, clock, f"&application_name={place.schema}") as through,
        # Both come to this when they have locked the jobs that they end.
        place.begun("lock table S.counts in share mode") as other,
    ):
        made = proxy.cut(after(from_client(type=SYNC), number=trips))
        asking, answers = in_a_thread(lambda: REPEATED[operation](through, jobs))
        made.wait()
        until(lambda: len(place.execute(WAITING, place.schema)) == 2)

        other.rollback()
        asking.join(30)

    assert (*answers, stored(store)) == undisturbed(postgres, REPEATED[operation])


def test_a_server_that_falls_silent_is_unavailable_and_so_is_one_that_does_not_greet(
    place: Place, store: PostgreSQL, proxy: Proxy, clock: Clock
) -> None:
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        with proxy.black_hole():
            with pytest.raises(StoreUnavailable, match="the server did not answer within 1 s"):
                through.enqueue([entry(id="one")])
            with pytest.raises(StoreUnavailable, match="timeout expired"):
                through.enqueue([entry(id="one")])

        through.enqueue([entry(id="one")])

    assert store.stats().total("due") == 1


def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next(
    place: Place, store: PostgreSQL, proxy: Proxy, clock: Clock
) -> None:
    store.enqueue([entry(id="one"), entry(id="two")])
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        with proxy.holding(), pytest.raises(StoreUnavailable, match=r"did not answer within 1 s"):
            job_of(through, "one")

        assert job_of(through, "two").id == "two"
