"""Raise an exception in a thread that runs someone else's code.

The interpreter raises it between two steps of Python code, not inside a call that waits in the operating system.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from tenure.client.run import TaskInterrupted


class Interruptible:
    """One call in the present thread, which another thread may interrupt once. What is raised never leaves the call."""

    __slots__ = ("_is_in_call", "_lock", "_thread", "_was_interrupted")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._is_in_call = False
        self._was_interrupted = False

    def interrupt(self) -> None:
        """Raise `Interrupted` in the call, unless it has ended or was interrupted; one to come does not begin."""
        with self._lock:
            if self._is_in_call:
                self._is_in_call = False
                _raise_in(self._thread, TaskInterrupted)
            self._was_interrupted = True

    def run(self, function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Return what the function returned, and what it raised."""
        value, error = None, None
        try:
            # The inner one is for what the function raises, the outer for an interrupt that comes when it has ended.
            try:
                self._enter_call()
                value = function()
            except BaseException as exc:  # noqa: BLE001 - returned to the caller
                error = exc
            self._leave_call()
        except TaskInterrupted:
            self._leave_call()
        return value, error

    def _enter_call(self) -> None:
        with self._lock:
            if self._was_interrupted:
                raise TaskInterrupted
            self._is_in_call = True

    def _leave_call(self) -> None:
        """Let nobody interrupt any more, and take back what was sent and has not come."""
        with self._lock:
            was_interrupted, self._is_in_call = not self._is_in_call, False
        if was_interrupted:
            _raise_in(self._thread, None)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
