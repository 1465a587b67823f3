"""Run scenes in a separate process.

The process has no threads and no open connections, so it can fork. It has a separate process group, which is killed at
the end with all children.
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
"""Bytes of a process id in a pipe."""


def play_in(module: str, name: str, *arguments: object, timeout: float = LONGEST) -> Any:
    """Run a scene of a module in a new process; return the JSON that the scene printed."""
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
    """Run a function in a forked child; return the process id of the child."""
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
    """Write the process id to a pipe, as a sign that the process holds jobs; do nothing if the pipe is full."""
    os.set_blocking(telling, False)
    with suppress(BlockingIOError):
        os.write(telling, os.getpid().to_bytes(PID))


def one_that_holds(told: int, alive: Collection[int]) -> int:
    """Return the next process in `alive` that reports that it holds jobs; after a second, a random process."""
    while select.select([told], [], [], 0)[0]:
        os.read(told, 1 << 16)
    while select.select([told], [], [], 1)[0]:
        if (pid := int.from_bytes(os.read(told, PID))) in alive:
            return pid
    return random.choice(sorted(alive))


def wait_for(children: Sequence[int]) -> list[int]:
    """Wait until the children end; return their exit codes."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


class Interrupts:
    """A signal handler: raise KeyboardInterrupt and count the calls."""

    def __init__(self) -> None:
        self.raised = 0

    def __call__(self, *_: object) -> None:
        self.raised += 1
        raise KeyboardInterrupt
