"""Take back what a dead child held, in a process of its own: the supervisor has no store.

The child's started jobs end as crashed; what had only waited in its buffer is released.
"""

import json
import logging
import subprocess
import tempfile
from collections.abc import Sequence

from tenure.backends.protocol import SWEEP, Backend, Claiming
from tenure.core.operations import Beat, Reaped
from tenure.worker.started_jobs import started_in

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds that a reaper has."""


class Reaping:
    """One process that takes back the jobs of one worker."""

    def __init__(self, command: Sequence[str], worker: str, started: Sequence[str] | None, now: float) -> None:
        self.worker = worker
        self._ends_at = now + PATIENCE
        # A file and not a pipe: it is written without anybody who reads.
        with tempfile.TemporaryFile() as message:
            message.write(json.dumps({"worker": worker, "started": started}).encode())
            message.seek(0)
            self._process = subprocess.Popen(command, stdin=message, process_group=0)

    def has_ended(self, now: float) -> bool:
        """Tell whether it has ended, well or not; one that takes too long is ended."""
        code = self._process.poll()
        if code is None and now >= self._ends_at:
            self._process.kill()
            code = self._process.wait()
        if code:
            say_that_it_failed(self.worker, code)
        return code is not None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def say_that_it_failed(worker: str, why: object) -> None:
    log.error(
        "the jobs of %s could not be taken back (%s): they run again when their leases have run out",
        worker,
        why,
        extra={"worker": worker},
    )


def reap_dead(store: Claiming, message: str | bytes, *, source: int = 0) -> list[Reaped]:
    """Take back what a dead worker held of one of its sources, as a supervisor's message says.

    For the process that gets one, and for each source, by its number.
    """
    told = json.loads(message)
    started = None if told["started"] is None else frozenset(started_in(source, told["started"]))
    reaped = part = store.reap(SWEEP, worker=told["worker"], started=started)
    while len(part) == SWEEP:
        part = store.reap(SWEEP, worker=told["worker"], started=started)
        reaped = [*reaped, *part]
    return reaped


def sign_off_dead(registry: Backend, message: str | bytes) -> None:
    """Forget a dead worker, when all was taken back that it held.

    It would be taken for alive until its last sign of life is old; the history has it by now.
    """
    registry.beat(Beat(name=json.loads(message)["worker"], host="", pid=0, version=""), 0.0)
