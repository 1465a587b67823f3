"""Unit tests of `DeferredSettlements`: when a settlement that was not recorded is sent again."""

import math
from dataclasses import dataclass
from typing import cast

import pytest

from tenure.client.run import Run
from tenure.core.operations import Settlement
from tenure.worker.deferred_settlements import (
    BUSY_DELAY,
    MAX_BUSY_DELAY,
    MAX_REJECTED_DELAY,
    REJECTED_DELAY,
    RESEND_BATCH_SIZE,
    RESEND_PAUSE,
    DeferredSettlements,
)

SETTLEMENT = cast("Settlement", object())


@dataclass(eq=False)
class Stub:
    resend_delay: float = 0.0


def new_run() -> Run:
    """Return a stub with the attribute of a run that `DeferredSettlements` uses."""
    return cast("Run", Stub())


def deferred_at(now: float, count: int, *, is_busy: bool = False) -> tuple[DeferredSettlements, list[Run]]:
    """Return that many settlements that were deferred for the first time, and their runs."""
    deferred, runs = DeferredSettlements(), [new_run() for _ in range(count)]
    for run in runs:
        deferred.add((run, SETTLEMENT), now, is_busy=is_busy)
    return deferred, runs


@pytest.mark.parametrize(
    ("is_busy", "expected"),
    [(False, [2, 4, 8, 16, 32, 60, 60]), (True, [0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5, 0.5])],
)
def test_the_delay_of_a_settlement_doubles_up_to_a_limit(is_busy: bool, expected: list[float]) -> None:  # noqa: FBT001
    deferred, run, now = DeferredSettlements(), new_run(), 0.0
    delays: list[float] = []
    for _ in expected:
        deferred.add((run, SETTLEMENT), now, is_busy=is_busy)
        delays.append(round(deferred.due_at - now, 3))
        now = deferred.due_at
        deferred.take_due(now)

    assert delays == expected
    assert (delays[0], delays[-1]) in {(REJECTED_DELAY, MAX_REJECTED_DELAY), (BUSY_DELAY, MAX_BUSY_DELAY)}


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_settlement_is_sent_again_after_at_least_five_times_as_long_as_its_request_took(
    is_busy: bool,  # noqa: FBT001
) -> None:
    deferred, run = DeferredSettlements(), new_run()

    deferred.add((run, SETTLEMENT), 1_000.0, 40.0, is_busy=is_busy)
    slow = deferred.due_at
    deferred.take_all()
    deferred.add((run, SETTLEMENT), 2_000.0, 0.0, is_busy=is_busy)
    fast = deferred.due_at

    assert slow == 1_200.0
    assert fast < 2_010.0


def test_a_settlement_that_is_due_later_does_not_delay_another() -> None:
    deferred, (first, second) = deferred_at(0.0, 2)
    deferred.take_due(REJECTED_DELAY)
    deferred.add((first, SETTLEMENT), REJECTED_DELAY, is_busy=False)
    second.resend_delay = 0.0
    deferred.add((second, SETTLEMENT), REJECTED_DELAY, is_busy=False)

    assert deferred.due_at == 2 * REJECTED_DELAY
    assert deferred.take_due(2 * REJECTED_DELAY) == [(second, SETTLEMENT)]
    assert deferred.runs == [first]


@pytest.mark.parametrize("is_busy", [False, True])
def test_few_settlements_are_sent_again_at_once_and_the_next_ones_after_a_pause(
    is_busy: bool,  # noqa: FBT001
) -> None:
    deferred, runs = deferred_at(0.0, 2 * RESEND_BATCH_SIZE, is_busy=is_busy)
    first = deferred.take_due(10.0)
    for ended in first:
        deferred.add(ended, 11.0, is_busy=is_busy)

    assert [run for run, _ in first] == runs[:RESEND_BATCH_SIZE]
    assert deferred.take_due(11.0) == []
    assert deferred.due_at == 11.0 + RESEND_PAUSE
    assert [run for run, _ in deferred.take_due(deferred.due_at)] == runs[RESEND_BATCH_SIZE:]


def test_settlements_that_fit_into_a_batch_are_sent_again_without_a_pause() -> None:
    deferred, (first, *others) = deferred_at(0.0, RESEND_BATCH_SIZE, is_busy=True)
    deferred.take_due(BUSY_DELAY)
    for run in others:
        deferred.add((run, SETTLEMENT), BUSY_DELAY, is_busy=True)
    deferred.add((first, SETTLEMENT), BUSY_DELAY, is_busy=True)

    assert len(deferred.take_due(3 * BUSY_DELAY)) == RESEND_BATCH_SIZE


def test_settlements_that_are_deferred_for_the_first_time_do_not_delay_others() -> None:
    deferred, runs = deferred_at(0.0, RESEND_BATCH_SIZE)
    deferred.add((new_run(), SETTLEMENT), REJECTED_DELAY, is_busy=False)

    assert deferred.take_due(REJECTED_DELAY) == [(run, SETTLEMENT) for run in runs]


def test_after_settlements_that_were_recorded_the_next_ones_are_sent_without_a_pause() -> None:
    deferred, runs = deferred_at(0.0, 2 * RESEND_BATCH_SIZE)
    deferred.take_due(REJECTED_DELAY)

    assert [run for run, _ in deferred.take_due(REJECTED_DELAY)] == runs[RESEND_BATCH_SIZE:]


def test_no_settlement_is_sent_again_before_it_is_due() -> None:
    deferred, _ = deferred_at(0.0, 1)

    assert deferred.take_due(REJECTED_DELAY - 0.01) == []
    assert len(deferred) == 1


def test_at_the_end_all_settlements_are_taken_at_once() -> None:
    deferred, runs = deferred_at(0.0, 2 * RESEND_BATCH_SIZE)

    taken = deferred.take_all()

    assert taken == [(run, SETTLEMENT) for run in runs]
    assert (len(deferred), deferred.due_at) == (0, math.inf)
