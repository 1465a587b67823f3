"""How a failed batch is split: in which order its parts run, and which items are postponed."""

from collections.abc import Sequence
from typing import Any

import pytest

from tenure.backends.shared.isolation import (
    PARTS,
    StatementBlocked,
    StatementFailed,
    StatementRejected,
    StatementTimedOut,
    isolate,
    settle_isolated,
)
from tenure.core.job import State
from tenure.core.operations import BUSY, Hold, Settled, Settlement, Unsettled
from tenure.core.transitions import build_completion
from tenure.errors import StoreUnavailable

REASON = "no invoice"


def postponed(part: Sequence[int]) -> list[str]:
    return ["postponed"] * len(part)


class Database:
    """Runs batches of numbers; a batch with a bad number fails. Records the batches."""

    def __init__(self, bad: dict[int, type[StatementFailed]]) -> None:
        self.bad = bad
        self.batches: list[list[int]] = []
        self.is_away = False

    def run(self, numbers: Sequence[int]) -> list[str]:
        self.batches.append(list(numbers))
        if self.is_away:
            raise StoreUnavailable("away")
        for number in numbers:
            if number in self.bad:
                raise self.bad[number]("failed", reason=REASON)
        return ["done"] * len(numbers)

    def reject(self, number: int, failed: StatementFailed) -> list[str]:
        self.batches.append([number])
        return [type(failed).__name__]


def test_most_items_do_not_wait_until_the_failed_one_is_found() -> None:
    database = Database({0: StatementRejected})
    items = range(PARTS * PARTS)

    results = isolate(items, database.run, database.reject)

    assert results == ["StatementRejected", *["done"] * (len(items) - 1)]
    assert [len(batch) for batch in database.batches[: PARTS + 1]] == [len(items), *[PARTS] * PARTS]


def test_an_item_that_takes_too_long_comes_last() -> None:
    database = Database({0: StatementTimedOut, 2: StatementRejected})

    results = isolate(range(4), database.run, database.reject)

    assert results == ["StatementTimedOut", "done", "StatementRejected", "done"]
    assert database.batches[1:] == [[0], [1], [2], [2], [3], [0]]


def test_no_batch_is_larger_than_the_limit_even_if_the_limit_falls_meanwhile() -> None:
    database = Database({})
    limits = iter([4, 4, *[2] * 20])

    results = isolate(range(8), database.run, database.reject, limit=lambda: next(limits))

    assert results == ["done"] * 8
    assert database.batches == [[0, 1, 2, 3], [4, 5], [6, 7]]


def test_items_are_postponed_when_the_time_is_over_but_one_is_tried() -> None:
    database = Database({0: StatementRejected})

    results = isolate(range(4), database.run, database.reject, postpone=postponed, longest=0.0)

    assert results == ["StatementRejected", *["postponed"] * 3]


def test_without_a_way_to_postpone_all_items_are_tried() -> None:
    database = Database({0: StatementRejected})

    assert isolate(range(4), database.run, database.reject, longest=0.0) == ["StatementRejected", *["done"] * 3]


def test_an_outage_after_the_first_results_postpones_the_rest_without_another_try() -> None:
    database = Database({0: StatementRejected})

    def reject(number: int, failed: StatementFailed) -> list[str]:
        database.is_away = True
        return database.reject(number, failed)

    results = isolate(range(4), database.run, reject, postpone=postponed)

    assert results == ["StatementRejected", *["postponed"] * 3]
    assert database.batches == [[0, 1, 2, 3], [0], [0], [1]]


@pytest.mark.parametrize("postpone", [None, postponed])
def test_an_outage_before_any_result_is_raised(postpone: Any) -> None:
    database = Database({})
    database.is_away = True

    with pytest.raises(StoreUnavailable, match="away"):
        isolate(range(4), database.run, database.reject, postpone=postpone)


def completions(*ids: str) -> list[Settlement]:
    return [build_completion(Hold(id=id, fence=1, token="t"), None) for id in ids]


def test_a_failed_row_is_reported_although_the_store_goes_away_for_the_rows_behind_it() -> None:
    def settle(part: Sequence[Settlement]) -> list[Settled]:
        if part[-1].hold.id == "last":
            raise StoreUnavailable("away") if len(part) == 1 else StatementRejected("rejected", reason=REASON)
        if part[0].hold.id == "first" and part[0].state is State.COMPLETED:
            raise StatementRejected("rejected", reason=REASON)
        return [True]

    assert settle_isolated(completions("first", "last"), settle) == [Unsettled(REASON, is_failed=True), BUSY]


def test_settlements_that_landed_are_not_sent_again() -> None:
    sent: list[str] = []

    def settle(part: Sequence[Settlement]) -> list[Settled]:
        sent.extend(each.hold.id for each in part)
        if part[0].hold.id == "c":
            raise StatementRejected("rejected", reason=REASON, is_invalid=True)
        return [True] * len(part)

    settled = settle_isolated(completions("a", "b", "c"), settle, limit=lambda: 2)

    assert settled == [True, True, Unsettled(REASON, may_retry=True)]
    assert sent == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (StatementTimedOut, Unsettled(REASON, may_retry=True)),
        (StatementBlocked, BUSY),
        (StatementRejected, Unsettled("rejected: " + REASON)),
    ],
)
def test_a_row_whose_failure_cannot_be_recorded_delays_only_itself(
    failure: type[StatementFailed], expected: Unsettled
) -> None:
    def settle(part: Sequence[Settlement]) -> list[Settled]:
        if part[0].hold.id == "bad" and part[0].state is State.COMPLETED:
            raise StatementRejected("rejected", reason="rejected: " + REASON)
        if part[0].hold.id == "bad":
            raise failure("not failed", reason=REASON)
        return [True] * len(part)

    assert settle_isolated(completions("bad", "good"), settle) == [expected, True]


def test_a_settlement_that_takes_too_long_is_tried_once_more_with_more_time() -> None:
    def settle(_: Sequence[Settlement]) -> list[Settled]:
        raise StatementTimedOut("slow", reason=REASON)

    assert settle_isolated(completions("slow"), settle, lambda part: [True] * len(part)) == [True]
    assert settle_isolated(completions("slow"), settle) == [Unsettled(REASON, may_retry=True)]


def test_a_settlement_without_effect_fails_its_row() -> None:
    def settle(part: Sequence[Settlement]) -> list[Settled]:
        return [each.state is State.FAILED or Unsettled(REASON) for each in part]

    assert settle_isolated(completions("skipped"), settle) == [Unsettled(REASON, is_failed=True)]
