"""A connection that is cut at any point of an operation: it is done once, or told to be cut off."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache

import pytest

from tenure.backends.redis import Redis
from tenure.backends.redis.script import script
from tenure.core.operations import Beat, Holding
from tenure.errors import StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    completed,
    entry,
    extend,
    job_of,
    request,
    settle,
    take,
    take_one,
    taken_by,
)
from tests.operations import NOT_REPEATED, REPEATED, Operation, given, stored
from tests.proxies.points import Point, after, before, from_client, from_server, within
from tests.redis.proxy import Proxy
from tests.redis.stores import Place, new_place
from tests.redis.verdict import faults
from tests.servers.redis import RedisServer

CUTS: Mapping[str, Point] = {
    "before the request": before(from_client(type="EVALSHA")),
    "in the request": within(from_client(type="EVALSHA")),
    "before the answer": after(from_client(type="EVALSHA")),
    "in the answer": within(from_server()),
}

DONE = ("before the answer", "in the answer")

SCRIPTS = (
    "enqueue",
    "claim",
    "extend",
    "settle",
    "exchange",
    "reap",
    "purge",
    "move",
    "delete",
    "schedule",
    "pause",
    "resume",
    "beat",
    "wait",
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(place: Place, clock: Clock) -> Iterator[Redis]:
    """The store, by a way that nobody cuts, on a server that knows its scripts."""
    for name in SCRIPTS:
        place.execute("SCRIPT LOAD", script(name).text)
    store = place.open(clock=clock)
    yield store
    store.close()


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


@pytest.fixture
def through(place: Place, proxy: Proxy, clock: Clock) -> Iterator[Redis]:
    """The store through the proxy, by a connection that is open."""
    with opened(place, proxy, clock) as store:
        yield store


@contextmanager
def opened(place: Place, proxy: Proxy, clock: Clock | None, options: str = "") -> Iterator[Redis]:
    with closing(Redis(proxy.url_of(place.prefix) + options, clock=clock)) as store:
        store.stats()
        yield store


@cache
def undisturbed(server: RedisServer, operation: Operation) -> tuple[object, object]:
    """Return what an operation answers, and what is stored then, if nothing happens to it."""
    clock = Clock()
    with new_place(server.url) as place, closing(place.open(clock=clock)) as store:
        answer = operation(store, given(store, clock))
        return answer, stored(store)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("operation", REPEATED)
def test_an_operation_that_is_cut_off_goes_on_by_itself_and_is_done_once(
    redis_server: RedisServer,
    place: Place,
    store: Redis,
    proxy: Proxy,
    through: Redis,
    clock: Clock,
    operation: str,
    cut: str,
) -> None:
    jobs = given(store, clock)
    made = proxy.cut(CUTS[cut], seen_off=True)

    answer = REPEATED[operation](through, jobs)

    assert made.is_done
    assert (answer, stored(store)) == undisturbed(redis_server, REPEATED[operation])
    assert faults(place) == {}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("operation", NOT_REPEATED)
def test_an_operation_that_may_not_be_repeated_is_told_to_be_cut_off_and_is_done_once_or_not(
    redis_server: RedisServer,
    place: Place,
    store: Redis,
    proxy: Proxy,
    through: Redis,
    clock: Clock,
    operation: str,
    cut: str,
) -> None:
    jobs = given(store, clock)
    untouched = stored(store)
    _, done = undisturbed(redis_server, NOT_REPEATED[operation])
    made = proxy.cut(CUTS[cut], seen_off=True)

    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        NOT_REPEATED[operation](through, jobs)

    assert made.is_done
    assert stored(through) == (done if cut in DONE else untouched)
    assert faults(place) == {}


@pytest.mark.parametrize("operation", REPEATED)
def test_a_script_that_is_sent_whole_and_cut_off_is_done_once(
    redis_server: RedisServer,
    place: Place,
    store: Redis,
    proxy: Proxy,
    through: Redis,
    clock: Clock,
    operation: str,
) -> None:
    jobs = given(store, clock)
    place.execute("SCRIPT FLUSH")
    made = proxy.drop_answer("EVAL")

    answer = REPEATED[operation](through, jobs)

    assert made.is_done
    assert (answer, stored(store)) == undisturbed(redis_server, REPEATED[operation])
    assert faults(place) == {}


@pytest.mark.parametrize("cut", DONE)
@pytest.mark.parametrize("operation", REPEATED)
def test_a_reset_in_place_of_an_answer_is_as_any_other_end_of_a_connection(
    redis_server: RedisServer, store: Redis, proxy: Proxy, through: Redis, clock: Clock, operation: str, cut: str
) -> None:
    jobs = given(store, clock)
    made = proxy.cut(CUTS[cut], reset=True)

    answer = REPEATED[operation](through, jobs)

    assert made.is_done
    assert (answer, stored(store)) == undisturbed(redis_server, REPEATED[operation])


@pytest.mark.parametrize("cut", CUTS)
def test_a_pause_a_resume_and_a_sign_of_life_that_are_cut_off_arrive(
    store: Redis, proxy: Proxy, through: Redis, cut: str
) -> None:
    store.enqueue([entry()])
    paused = proxy.cut(CUTS[cut], seen_off=True)
    through.pause(["default"])
    while_paused = take(store)
    resumed = proxy.cut(CUTS[cut], seen_off=True)
    through.resume(["default"])
    seen = proxy.cut(CUTS[cut], seen_off=True)
    through.beat(Beat(name="w1", host="h", pid=1, version="1"), 60)

    assert paused.is_done
    assert resumed.is_done
    assert seen.is_done
    assert while_paused == []
    assert len(take(store)) == 1
    assert [worker.name for worker in store.workers()] == ["w1"]


@pytest.mark.parametrize("cut", CUTS)
def test_who_waits_and_is_cut_off_looks_again_by_itself(place: Place, store: Redis, proxy: Proxy, cut: str) -> None:
    store.enqueue([entry()])
    with opened(place, proxy, None) as through:
        made = proxy.cut(CUTS[cut], seen_off=True)

        through.wait(None, None, 20)

    assert made.is_done
    assert faults(place) == {}


def test_who_waits_until_the_end_for_a_store_that_is_away_is_told_so(place: Place, store: Redis, proxy: Proxy) -> None:
    store.enqueue([entry()])
    with opened(place, proxy, None, "&timeout=0.1") as through, proxy.refusing():
        proxy.cut_all()

        with pytest.raises(StoreUnavailable, match="Connection refused"):
            through.wait(None, None, 0.1)


def test_a_key_that_is_asked_for_again_is_not_taken_by_oneself(store: Redis, proxy: Proxy, through: Redis) -> None:
    made = proxy.drop_answer("EVALSHA")

    through.enqueue([entry(id="new", key="free", on_conflict="raise")])

    assert made.is_done
    assert store.stats().total("due") == 1


def test_a_claim_whose_answer_is_lost_for_good_is_adopted_by_who_asks_again(
    place: Place, store: Redis, proxy: Proxy, clock: Clock
) -> None:
    store.enqueue([entry(id="one"), entry(id="two")])
    asked = request(limit=1)
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        made = proxy.drop_answer("EVALSHA")
        with proxy.refusing(), pytest.raises(StoreUnavailable, match="Connection refused"):
            through.claim(asked)

        claimed = through.claim(asked)

    assert made.is_done
    assert [(job.id, job.fence, job.attempts) for job in claimed.jobs] == [("one", 1, 1)]
    assert store.stats().total("running") == 1
    assert faults(place) == {}


def test_a_claim_whose_client_is_gone_runs_out_and_is_somebody_elses(
    place: Place, store: Redis, proxy: Proxy, clock: Clock
) -> None:
    store.enqueue([entry(id="one")])
    asked = request(lease=60)
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        proxy.drop_answer("EVALSHA")
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


def test_a_server_that_falls_silent_is_unavailable_and_so_is_one_that_does_not_greet(
    place: Place, store: Redis, proxy: Proxy, clock: Clock
) -> None:
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        with proxy.black_hole():
            with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.5 s"):
                through.enqueue([entry(id="one")])
            with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.5 s"):
                through.enqueue([entry(id="one")])

        through.enqueue([entry(id="one")])

    assert store.stats().total("due") == 1


def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next(
    place: Place, store: Redis, proxy: Proxy, clock: Clock
) -> None:
    store.enqueue([entry(id="one"), entry(id="two")])
    with opened(place, proxy, clock, "&timeout=0.5") as through:
        with proxy.holding(), pytest.raises(StoreUnavailable, match=r"did not answer within 0\.5 s"):
            job_of(through, "one")

        assert job_of(through, "two").id == "two"
