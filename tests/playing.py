"""Scenes that play in a process of their own.

It has no threads and nothing open, so that it may fork; and it has a group of its own, so that nobody is left whom it
started.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LONGEST = 280.0


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


def wait_for(children: Sequence[int]) -> list[int]:
    """Return the exit codes of these children, when they have ended."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
