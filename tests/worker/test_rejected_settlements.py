"""Unit tests of `RejectedSettlements`: when a settlement that the table rejects is sent again."""

from dataclasses import dataclass
from typing import cast

from tenure.client.run import Run
from tenure.worker.rejected_settlements import (
    MAX_REJECTED_DELAY,
    REJECTED_DELAY,
    RESEND_BATCH_SIZE,
    RESEND_PAUSE,
    RejectedSettlements,
)


@dataclass(eq=False)
class Stub:
    rejected_delay: float = 0.0


def new_run() -> Run:
    """Return a stub with the attribute of a run that `RejectedSettlements` uses."""
    return cast("Run", Stub())


def rejected_at(now: float, count: int) -> tuple[RejectedSettlements, list[Run]]:
    """Return that many settlements that were rejected for the first time, and their runs."""
    rejected, runs = RejectedSettlements(), [new_run() for _ in range(count)]
    for run in runs:
        rejected.add((run, None), now)
    return rejected, runs


def test_the_delay_of_a_rejected_settlement_doubles_up_to_a_minute() -> None:
    rejected, run, now = RejectedSettlements(), new_run(), 0.0
    delays: list[float] = []
    for _ in range(7):
        rejected.add((run, None), now)
        delays.append(rejected.due_at - now)
        now = rejected.due_at
        rejected.take_due(now)

    assert (delays[0], delays[-1]) == (REJECTED_DELAY, MAX_REJECTED_DELAY)
    assert delays == [2, 4, 8, 16, 32, 60, 60]


def test_a_settlement_that_is_due_later_does_not_delay_another() -> None:
    rejected, (first, second) = rejected_at(0.0, 2)
    rejected.take_due(REJECTED_DELAY)
    rejected.add((first, None), REJECTED_DELAY)
    second.rejected_delay = 0.0
    rejected.add((second, None), REJECTED_DELAY)

    assert rejected.take_due(2 * REJECTED_DELAY) == [(second, None)]
    assert rejected.runs == [first]


def test_few_rejected_settlements_are_sent_again_at_once_and_the_next_ones_after_a_pause() -> None:
    rejected, runs = rejected_at(0.0, 2 * RESEND_BATCH_SIZE)
    first = rejected.take_due(10.0)
    for ended in first:
        rejected.add(ended, 11.0)

    assert [run for run, _ in first] == runs[:RESEND_BATCH_SIZE]
    assert rejected.take_due(11.0) == []
    assert rejected.due_at == 11.0 + RESEND_PAUSE
    assert [run for run, _ in rejected.take_due(rejected.due_at)] == runs[RESEND_BATCH_SIZE:]


def test_settlements_that_are_rejected_for_the_first_time_do_not_delay_others() -> None:
    rejected, runs = rejected_at(0.0, 1)
    rejected.add((new_run(), None), REJECTED_DELAY)

    assert rejected.take_due(REJECTED_DELAY) == [(runs[0], None)]


def test_after_settlements_that_were_recorded_the_next_ones_are_sent_without_a_pause() -> None:
    rejected, runs = rejected_at(0.0, 2 * RESEND_BATCH_SIZE)
    rejected.take_due(REJECTED_DELAY)

    assert [run for run, _ in rejected.take_due(REJECTED_DELAY)] == runs[RESEND_BATCH_SIZE:]


def test_no_settlement_is_sent_again_before_it_is_due() -> None:
    rejected, _ = rejected_at(0.0, 1)

    assert rejected.take_due(REJECTED_DELAY - 0.01) == []
    assert len(rejected) == 1
