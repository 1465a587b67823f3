"""Run actions concurrently, in real threads."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar, cast

A = TypeVar("A")
B = TypeVar("B")

RACE_TIMEOUT = 60.0


class Racer:
    """A thread that runs actions. A daemon thread, so that a hanging action does not block the exit of the process."""

    def __init__(self) -> None:
        self._actions: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def start(self, action: Callable[[], A]) -> "Future[A]":
        future: Future[A] = Future()
        self._actions.put((future, action))
        return future

    def _run(self) -> None:
        while True:
            future, action = self._actions.get()
            try:
                future.set_result(action())
            except BaseException as exc:  # noqa: BLE001 - `Future.result` raises it
                future.set_exception(exc)


_racers: list[Racer] = []


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_concurrently(actions: Sequence[Callable[[], A]]) -> list[A]:
    """Run all actions at the same time, in separate threads; return their results in order.

    The n-th action always runs in the same thread, so a store with a connection per thread opens no new connections in
    the next round.
    """
    while len(_racers) < len(actions):
        _racers.append(Racer())
    barrier = threading.Barrier(len(actions))

    def act(action: Callable[[], A]) -> A:
        barrier.wait(RACE_TIMEOUT)
        return action()

    with frequent_thread_switches():
        running = [racer.start(partial(act, each)) for racer, each in zip(_racers, actions, strict=False)]
        return [each.result(RACE_TIMEOUT) for each in running]


def run_both_concurrently(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """Run two actions at the same time."""
    results = run_concurrently(cast("list[Callable[[], object]]", [first, second]))
    return cast("A", results[0]), cast("B", results[1])
