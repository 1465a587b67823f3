"""Raise an exception in a thread that runs user code.

The interpreter raises it between two bytecode instructions, not during a system call that blocks.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from tenure.client.run import TaskInterrupted


class Interruptible:
    """One call in the current thread, which another thread may interrupt once. The exception never leaves `run`."""

    __slots__ = ("_is_in_call", "_lock", "_thread", "_was_interrupted")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._is_in_call = False
        self._was_interrupted = False

    def interrupt(self) -> None:
        """Raise `TaskInterrupted` in the call, unless it has ended or was interrupted. A later call does not start."""
        with self._lock:
            if self._is_in_call:
                self._is_in_call = False
                _raise_in(self._thread, TaskInterrupted)
            self._was_interrupted = True

    def run(self, function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Call the function; return the result and the exception."""
        value, error = None, None
        try:
            # The inner `try` catches exceptions of the function, the outer one an interrupt that arrives after its end.
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
        """Prevent further interrupts, and clear one that was set and has not been raised yet."""
        with self._lock:
            was_interrupted, self._is_in_call = not self._is_in_call, False
        if was_interrupted:
            _raise_in(self._thread, None)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
