"""Scenes that play in a process of their own.

It has no threads and nothing open, so that it may fork; and it has a group of its own, so that nobody is left whom it
started.
"""

import json
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LONGEST = 280.0
PID = 4
"""Bytes that a process id has in a pipe."""


def play_in(module: str, name: str, *arguments: object, timeout: float = LONGEST) -> Any:
    """Play a scene of this module in a new process, and return what it printed."""
    command = [sys.executable, "-m", module, name, *map(str, arguments)]
    played = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        printed, errors = played.communicate(timeout=timeout)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(played.pid, signal.SIGKILL)
    assert played.returncode == 0, errors[-3000:]
    return json.loads(printed)


def fork(action: Callable[[], object]) -> int:
    """Do it in a child, and return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        action()
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def say_that_one_holds(telling: int) -> None:
    """Tell by this pipe that this process holds jobs; to nobody if nobody reads it any more."""
    os.set_blocking(telling, False)
    with suppress(BlockingIOError):
        os.write(telling, os.getpid().to_bytes(PID))


def one_that_holds(told: int, alive: Collection[int]) -> int:
    """Return one of these that has just said that it holds jobs; any of them if for a second nobody says so."""
    while select.select([told], [], [], 0)[0]:
        os.read(told, 1 << 16)
    while select.select([told], [], [], 1)[0]:
        if (pid := int.from_bytes(os.read(told, PID))) in alive:
            return pid
    return random.choice(sorted(alive))


def wait_for(children: Sequence[int]) -> list[int]:
    """Return the exit codes of these children, when they have ended."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


class Interrupts:
    """Raises KeyboardInterrupt, once for each time that it is set."""

    def __init__(self) -> None:
        self.raised = 0

    def __call__(self, *_: object) -> None:
        self.raised += 1
        raise KeyboardInterrupt
