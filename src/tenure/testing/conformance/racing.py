"""Doing things at the same time, with real threads."""

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
    """A thread that does what it is told. It is a daemon, so that one that hangs does not hold up the end."""

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
    """Let threads take turns in the middle of things."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_concurrently(actions: Sequence[Callable[[], A]]) -> list[A]:
    """Do all of these, each in a thread of its own and none before the others; return their answers in order.

    The first action always has the same thread, and so have the others: a store that has a connection for each
    thread needs no new ones in the next round.
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
    """Do these two at the same time."""
    results = run_concurrently(cast("list[Callable[[], object]]", [first, second]))
    return cast("A", results[0]), cast("B", results[1])
