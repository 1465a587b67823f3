"""Unit tests of `RunQueue`: the buffered and running jobs of a worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest

from tenure.client.run import Run
from tenure.worker.run_queue import RunQueue


def run_of(name: str, *, is_async: bool = True, claimed_at: float = 0.0) -> Run:
    """Return a stub with the attributes of a run that `RunQueue` reads."""
    return cast("Run", Stub(name, SimpleNamespace(is_async=is_async), claimed_at, object()))


@dataclass(eq=False)
class Stub:
    name: str
    handler: SimpleNamespace
    claimed_at: float
    lease: object


@pytest.fixture
def handed() -> list[Run]:
    return []


@pytest.fixture
def run_queue(handed: list[Run]) -> RunQueue:
    def hand_over(runs: Sequence[Run]) -> None:
        handed.extend(runs)

    return RunQueue(2, hand_over)


def test_as_many_begin_as_may_run_and_the_others_wait_in_order(run_queue: RunQueue, handed: list[Run]) -> None:
    runs = [run_of(name) for name in "abcd"]

    run_queue.add(runs)

    assert handed == runs[:2]
    assert list(run_queue.buffered) == runs[2:]
    assert run_queue.size == 4


def test_a_slot_that_ended_a_run_takes_the_next_by_itself(run_queue: RunQueue, handed: list[Run]) -> None:
    first, second, third = runs = [run_of(name) for name in "abc"]
    run_queue.add(runs)
    assert run_queue.mark_started(first)

    assert run_queue.next_after(first) is third
    assert run_queue.next_after(third) is None
    assert handed == [first, second]
    assert run_queue.started_runs() == []


def test_a_run_of_another_kind_is_handed_over_in_its_turn(run_queue: RunQueue, handed: list[Run]) -> None:
    first, second, third = runs = [run_of("a"), run_of("b"), run_of("c", is_async=False)]
    run_queue.add(runs)

    assert run_queue.next_after(first) is None
    assert handed == [first, second, third]
    assert run_queue.mark_started(third)


def test_what_was_handed_over_can_be_withdrawn_until_it_has_begun(run_queue: RunQueue) -> None:
    first, second = runs = [run_of("a"), run_of("b")]
    run_queue.add(runs)
    assert run_queue.mark_started(first)

    assert run_queue.take_back_submitted() == [second]
    assert not run_queue.mark_started(second)
    assert (run_queue.started_runs(), run_queue.size) == ([first], 1)


def test_what_waits_can_be_withdrawn(run_queue: RunQueue) -> None:
    runs = [run_of(name) for name in "abc"]
    run_queue.add(runs)

    assert run_queue.take_back_buffered() == runs[2:]
    assert run_queue.take_back_buffered() == []


def test_whether_a_job_has_waited_is_that_of_the_first(run_queue: RunQueue) -> None:
    run_queue.add([run_of(name, claimed_at=10.0) for name in "abc"])

    assert run_queue.has_buffered_since(since=11.0)
    assert not run_queue.has_buffered_since(since=10.0)
    run_queue.take_back_buffered()
    assert not run_queue.has_buffered_since(since=11.0)


def test_a_run_that_does_not_end_is_given_up_and_another_begins(run_queue: RunQueue, handed: list[Run]) -> None:
    runs = [run_of(name) for name in "abc"]
    run_queue.add(runs)

    run_queue.abandon_run(runs[0])

    assert handed == runs
    # When the abandoned run ends later, no other run starts in its place.
    assert run_queue.next_after(runs[0]) is None
    assert run_queue.size == 2


def test_a_run_is_found_by_its_lease_while_it_runs(run_queue: RunQueue) -> None:
    run = run_of("a")
    run_queue.add([run])

    assert run_queue.find_by_lease(run.lease) is run
    run_queue.next_after(run)
    assert run_queue.find_by_lease(run.lease) is None


def test_what_is_abandoned_is_not_waited_for(run_queue: RunQueue) -> None:
    runs = [run_of("a"), run_of("b")]
    run_queue.add(runs)

    assert set(run_queue.abandon_all()) == set(runs)
    assert run_queue.size == 0
