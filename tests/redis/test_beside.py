"""Independent completions and a claim are sent as two scripts in one round trip."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tenure.backends.redis import Redis
from tenure.backends.redis.claim import NOTHING_EXPIRED, PIPELINED_EXCHANGE_MINIMUM
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    Taken,
    build_completion,
    build_record,
    build_release,
    ids_of,
    request,
    take,
)
from tests.redis.proxy import Proxy
from tests.redis.stores import Place
from tests.redis.verdict import faults
from tests.servers.redis import RedisServer


@pytest.fixture
def held(store: Redis) -> list[Taken]:
    store.enqueue([build_record(id=f"{n}") for n in range(PIPELINED_EXCHANGE_MINIMUM + 2)])
    return take(store, limit=PIPELINED_EXCHANGE_MINIMUM, lease=10)


def test_a_claim_gives_a_hint(store: Redis) -> None:
    assert store.claim(request()).hint == NOTHING_EXPIRED


def test_both_are_done(place: Place, store: Redis, held: list[Taken]) -> None:
    landed, claimed = store.exchange([build_completion(each) for each in held], request(limit=9, hint=NOTHING_EXPIRED))

    assert landed == [True] * PIPELINED_EXCHANGE_MINIMUM
    assert ids_of(claimed.jobs) == [f"{PIPELINED_EXCHANGE_MINIMUM}", f"{PIPELINED_EXCHANGE_MINIMUM + 1}"]
    assert store.stats().total("completed") == PIPELINED_EXCHANGE_MINIMUM
    assert faults(place) == {}


def test_completions_land_though_their_leases_ran_out(place: Place) -> None:
    clock = Clock()
    with closing(place.open(clock=clock)) as store:
        store.enqueue([build_record() for _ in range(PIPELINED_EXCHANGE_MINIMUM)])
        late = take(store, limit=PIPELINED_EXCHANGE_MINIMUM, lease=10)
        clock.advance(10)

        landed, claimed = store.exchange(
            [build_completion(each) for each in late], request(limit=9, hint=NOTHING_EXPIRED)
        )

    assert landed == [True] * PIPELINED_EXCHANGE_MINIMUM
    assert claimed.jobs == []


def test_what_can_be_seen_by_the_claim_is_done_before_it(store: Redis, held: list[Taken]) -> None:
    first, *others = held

    _, claimed = store.exchange(
        [build_release(first), *(build_completion(each) for each in others)], request(limit=9, hint=NOTHING_EXPIRED)
    )

    assert ids_of(claimed.jobs) == [first.id, f"{PIPELINED_EXCHANGE_MINIMUM}", f"{PIPELINED_EXCHANGE_MINIMUM + 1}"]


def test_scripts_that_the_server_has_forgotten_are_sent_whole(place: Place, store: Redis, held: list[Taken]) -> None:
    place.execute("SCRIPT", "FLUSH")

    landed, claimed = store.exchange([build_completion(each) for each in held], request(limit=9, hint=NOTHING_EXPIRED))

    assert landed == [True] * PIPELINED_EXCHANGE_MINIMUM
    assert len(claimed.jobs) == 2
    assert faults(place) == {}


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("is_done", [True, False])
def test_what_was_cut_off_is_asked_again_and_changes_nothing_twice(
    place: Place,
    store: Redis,
    held: list[Taken],
    proxy: Proxy,
    number: int,
    is_done: bool,  # noqa: FBT001
) -> None:
    with closing(Redis(proxy.url_of(place.prefix))) as cut_off:
        cut_off.stats()
        if is_done:
            proxy.drop_answer("EVALSHA", number=number)
        else:
            proxy.drop_request("EVALSHA", number=number)
        landed, claimed = cut_off.exchange(
            [build_completion(each) for each in held], request(limit=9, hint=NOTHING_EXPIRED)
        )

    assert landed == [True] * PIPELINED_EXCHANGE_MINIMUM
    assert {(job.id, job.fence) for job in claimed.jobs} == {
        (f"{PIPELINED_EXCHANGE_MINIMUM}", 1),
        (f"{PIPELINED_EXCHANGE_MINIMUM + 1}", 1),
    }
    assert store.stats().total("completed") == PIPELINED_EXCHANGE_MINIMUM
    assert faults(place) == {}
