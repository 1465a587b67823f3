"""A durable server that is killed and restarted: no job is lost, and no job is held twice."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import tenure
from tests.processes.stage import until
from tests.proxies.points import before, from_server
from tests.redis.proxy import Proxy
from tests.redis.scenes import play
from tests.redis.stores import Place
from tests.redis.verdict import verdict
from tests.redis.witness import Witness
from tests.servers.redis import OwnRedis
from tests.tiers import only_in_all

PROCESSES = 4
MORE = 2_000
"""Bytes that each process logs between two kills: about forty requests."""
JOBS = '[["'
"""The start of a claimed job in a response."""


@pytest.fixture
def witness() -> Iterator[Witness]:
    with TemporaryDirectory(prefix="tenure-redis-") as made:
        yield Witness(Path(made))


@pytest.fixture
def place(own_redis: OwnRedis) -> Place:
    return Place(own_redis.url, "tenure")


@contextmanager
def under_load(place: Place, witness: Witness) -> Iterator[Future[Any]]:
    """Run the processes during the block; collect their results afterwards."""
    with ThreadPoolExecutor(1) as beside:
        codes = beside.submit(play, "load", place, witness.folder, PROCESSES)
        try:
            yield codes
        finally:
            witness.gate.touch()


def each_tells_more(witness: Witness) -> None:
    """Wait until each process has made progress."""
    sizes = witness.sizes()

    def has_gone_on() -> bool:
        now = witness.sizes()
        return len(now) == PROCESSES and all(now[name] > sizes.get(name, 0) + MORE for name in now)

    until(has_gone_on)


def assert_each_was_done_once(place: Place, witness: Witness) -> None:
    """Check that all acknowledged jobs exist, and that each job was completed by its only holder."""
    acknowledged, held = witness.told("enqueued"), witness.told("held")
    number, found = len(acknowledged), verdict(place)
    with tenure.Jobs(place.url) as jobs:
        stored = {job.id: (job.state, job.fence, job.attempts, job.history) for job in jobs.find()}
    assert stored == {line.id: ("completed", 1, 1, ()) for line in acknowledged}
    assert Counter((line.id, line.fence) for line in held) == {(line.id, 1): 1 for line in acknowledged}
    assert sorted(witness.told("completed")) == sorted(line._replace(what="completed") for line in held)
    assert found["happened"] == {"enqueued": number, "claimed": number, "completed": number}
    assert found["faults"] == {}


@only_in_all
def test_a_server_killed_twenty_times_under_load_loses_nothing_and_lets_nothing_be_held_twice(
    own_redis: OwnRedis, place: Place, witness: Witness
) -> None:
    """Slow: a server is killed and started again twenty times."""
    with under_load(place, witness) as codes:
        for _ in range(20):
            each_tells_more(witness)
            own_redis.kill()
            own_redis.start()

    assert codes.result() == [0] * PROCESSES
    assert_each_was_done_once(place, witness)


@only_in_all
def test_a_server_killed_twenty_times_between_a_claim_and_its_answer_has_it_adopted_by_who_asked(
    own_redis: OwnRedis, place: Place, witness: Witness
) -> None:
    """Slow: a server is killed and started again twenty times."""
    with Proxy(own_redis) as proxy, under_load(Place(proxy.url, place.prefix), witness) as codes:
        for _ in range(20):
            each_tells_more(witness)
            with proxy.holding(before(from_server(JOBS))) as hold:
                hold.wait()
                own_redis.kill()
                proxy.cut_all()
            own_redis.start()
        witness.gate.touch()

        assert codes.result() == [0] * PROCESSES
    assert_each_was_done_once(place, witness)


def test_claims_are_held_and_ended_as_before_when_the_server_was_killed(own_redis: OwnRedis, place: Place) -> None:
    with tenure.Jobs(place.url) as jobs:
        jobs.enqueue_many(tenure.NewJob("work", key=f"key-{number}") for number in range(3))
        completed, failed, held = jobs.claim(limit=3, lease=60)
        completed.complete("result")
        failed.fail("broken")

        own_redis.kill()
        own_redis.start()
        held.complete()

        found = {job.id: (job.state, job.result, len(job.history)) for job in jobs.find()}
    assert found == {
        completed.id: ("completed", "result", 0),
        failed.id: ("queued", None, 1),
        held.id: ("completed", None, 0),
    }
    assert verdict(place)["faults"] == {}
