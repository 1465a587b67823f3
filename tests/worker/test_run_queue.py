"""The jobs that a worker has, by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest

from tenure.client.run import Run
from tenure.worker.run_queue import Board


def run_of(name: str, *, is_async: bool = True, claimed_at: float = 0.0) -> Run:
    """Return what the board looks at of a run."""
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
def board(handed: list[Run]) -> Board:
    def hand_over(runs: Sequence[Run]) -> None:
        handed.extend(runs)

    return Board(2, hand_over)


def test_as_many_begin_as_may_run_and_the_others_wait_in_order(board: Board, handed: list[Run]) -> None:
    runs = [run_of(name) for name in "abcd"]

    board.add(runs)

    assert handed == runs[:2]
    assert list(board.waiting) == runs[2:]
    assert board.size == 4


def test_a_slot_that_ended_a_run_takes_the_next_by_itself(board: Board, handed: list[Run]) -> None:
    first, second, third = runs = [run_of(name) for name in "abc"]
    board.add(runs)
    assert board.begin(first)

    assert board.next_after(first) is third
    assert board.next_after(third) is None
    assert handed == [first, second]
    assert board.begun() == []


def test_a_run_of_another_kind_is_handed_over_in_its_turn(board: Board, handed: list[Run]) -> None:
    first, second, third = runs = [run_of("a"), run_of("b"), run_of("c", is_async=False)]
    board.add(runs)

    assert board.next_after(first) is None
    assert handed == [first, second, third]
    assert board.begin(third)


def test_what_was_handed_over_can_be_withdrawn_until_it_has_begun(board: Board) -> None:
    first, second = runs = [run_of("a"), run_of("b")]
    board.add(runs)
    assert board.begin(first)

    assert board.withdraw_handed() == [second]
    assert not board.begin(second)
    assert (board.begun(), board.size) == ([first], 1)


def test_what_waits_can_be_withdrawn(board: Board) -> None:
    runs = [run_of(name) for name in "abc"]
    board.add(runs)

    assert board.withdraw_waiting() == runs[2:]
    assert board.withdraw_waiting() == []


def test_whether_a_job_has_waited_is_that_of_the_first(board: Board) -> None:
    board.add([run_of(name, claimed_at=10.0) for name in "abc"])

    assert board.has_waited(since=11.0)
    assert not board.has_waited(since=10.0)
    board.withdraw_waiting()
    assert not board.has_waited(since=11.0)


def test_a_run_that_does_not_end_is_given_up_and_another_begins(board: Board, handed: list[Run]) -> None:
    runs = [run_of(name) for name in "abc"]
    board.add(runs)

    board.give_up(runs[0])

    assert handed == runs
    # When it ends all the same, it takes nobody's place.
    assert board.next_after(runs[0]) is None
    assert board.size == 2


def test_a_run_is_found_by_its_lease_while_it_runs(board: Board) -> None:
    run = run_of("a")
    board.add([run])

    assert board.run_with(run.lease) is run
    board.next_after(run)
    assert board.run_with(run.lease) is None


def test_what_is_abandoned_is_not_waited_for(board: Board) -> None:
    runs = [run_of("a"), run_of("b")]
    board.add(runs)

    assert set(board.abandon()) == set(runs)
    assert board.size == 0
