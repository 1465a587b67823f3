"""Unit tests of the small classes of a worker."""

import threading
import time

import pytest

import tenure.testing
from tenure.backends.memory import Memory
from tenure.client.keeper import ticks
from tenure.client.run import TaskInterrupted
from tenure.core.job import Outcome
from tenure.worker.interrupt import Interruptible
from tenure.worker.prefetch import MAX_PREFETCH, Prefetch
from tenure.worker.store_retry import MAX_BACKOFF, MIN_BACKOFF, RetryingStore
from tenure.worker.wakeup import Wakeup
from tests.worker.looking import DEADLINE


def test_a_bell_that_was_rung_is_heard_once() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()

    assert wakeup.wait(0)
    assert not wakeup.wait(0)


def test_a_bell_can_be_rung_again_after_it_was_heard() -> None:
    wakeup = Wakeup()
    for _ in range(3):
        wakeup.set()
        assert wakeup.wait(0)


def test_a_bell_wakes_who_waits() -> None:
    wakeup, heard = Wakeup(), threading.Event()

    def wait() -> None:
        if wakeup.wait(DEADLINE):
            heard.set()

    thread = threading.Thread(target=wait)
    thread.start()
    wakeup.set()
    thread.join()

    assert heard.is_set()


def test_nothing_is_held_ahead_before_anything_is_known_nor_for_slow_jobs() -> None:
    prefetch = Prefetch()
    assert prefetch.size == 0

    for _ in range(20):
        prefetch.record(ended=10, elapsed=1.0, round_trip=0.002)

    assert prefetch.size == 0


def test_about_two_trips_of_work_are_held_ahead() -> None:
    prefetch = Prefetch()
    for _ in range(50):
        prefetch.record(ended=100, elapsed=0.1, round_trip=0.02)

    assert prefetch.size in range(38, 41)


def test_what_is_held_ahead_is_bounded_and_ends_when_it_waits_too_long() -> None:
    prefetch = Prefetch()
    for _ in range(50):
        prefetch.record(ended=1_000, elapsed=0.01, round_trip=0.1)
    assert prefetch.size == MAX_PREFETCH

    prefetch.reset()
    assert prefetch.size == 0


def test_a_store_that_is_away_is_asked_less_and_less_often_and_at_least_once_a_second() -> None:
    store = RetryingStore(Memory())

    pauses = [store.next_backoff() for _ in range(50)]

    assert MIN_BACKOFF <= pauses[0] <= 2 * MIN_BACKOFF
    assert all(MAX_BACKOFF / 2 <= each <= MAX_BACKOFF <= 1 for each in pauses[10:])


def test_what_a_call_returns_and_raises_is_given_as_values() -> None:
    error = ValueError("no")

    def fail() -> None:
        raise error

    assert Interruptible().run(lambda: 7) == (7, None)
    assert Interruptible().run(fail) == (None, error)


def test_a_call_is_interrupted_between_two_steps() -> None:
    calls: list[Interruptible] = []
    begun = threading.Event()
    answers: list[tuple[object, BaseException | None]] = []

    def spin() -> None:
        begun.set()
        ends_at = time.monotonic() + DEADLINE
        while time.monotonic() < ends_at:
            pass

    def run() -> None:
        calls.append(Interruptible())
        answers.append(calls[0].run(spin))

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(DEADLINE)
    calls[0].interrupt()
    calls[0].interrupt()
    thread.join()

    ((value, error),) = answers
    assert value is None
    assert isinstance(error, TaskInterrupted)


def test_an_interrupt_never_leaves_its_call_however_late_it_comes() -> None:
    """Repeatedly interrupt a call at about the moment when the call returns."""
    escaped: list[BaseException] = []
    ended = 0

    def run() -> None:
        nonlocal ended
        try:
            for _ in range(2_000):
                call = Interruptible()
                current.append(call)
                call.run(lambda: sum(range(50)))
                sum(range(100))
                ended += 1
        except BaseException as exc:  # noqa: BLE001 - the test asserts that nothing escapes
            escaped.append(exc)

    current: list[Interruptible] = []
    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        if current:
            current[-1].interrupt()
    thread.join()

    assert (escaped, ended) == ([], 2_000)


def test_an_interrupt_that_comes_when_the_call_has_returned_changes_nothing_of_it() -> None:
    class Late(Interruptible):
        comes = True

        def _leave_call(self) -> None:
            if self.comes:
                self.comes = False
                raise TaskInterrupted
            super()._leave_call()

    assert Late().run(lambda: 7) == (7, None)


def test_after_its_end_a_call_cannot_be_interrupted() -> None:
    call = Interruptible()
    call.run(lambda: None)

    call.interrupt()
    assert sum(range(1_000)) == 499_500


def test_a_call_that_is_interrupted_before_it_begins_does_not_begin() -> None:
    call = Interruptible()
    begun: list[int] = []

    call.interrupt()
    value, error = call.run(lambda: begun.append(1))

    assert (value, begun) == (None, [])
    assert isinstance(error, TaskInterrupted)


@pytest.mark.parametrize("kind", [Exception, BaseException])
def test_an_interrupt_is_no_exception_that_handlers_catch(kind: type[BaseException]) -> None:
    assert issubclass(TaskInterrupted, kind) is (kind is BaseException)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, None),
        ({"valid_until": 0.0}, Outcome.RELEASED),
        ({"is_over": True}, Outcome.RELEASED),
        ({"cancel_requested": True}, Outcome.CANCELLED),
    ],
)
def test_a_run_that_may_be_anothers_or_was_stopped_is_not_begun(
    changes: dict[str, object], outcome: Outcome | None
) -> None:
    with tenure.testing.claim() as run:
        for name, value in changes.items():
            setattr(run.lease, name, value)

        settlement = run.rejection(ticks())

        assert (None if settlement is None else settlement.outcome) is outcome
