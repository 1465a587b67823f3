"""Take back what a dead child held, in a process of its own: the supervisor has no store.

The child's started jobs end as crashed; what had only waited in its buffer is released.
"""

import json
import logging
import subprocess
import tempfile
from collections.abc import Sequence

from tenure.backends.protocol import SWEEP, Backend, Claiming
from tenure.core.operations import Heartbeat, Reaped
from tenure.worker.started_jobs import job_ids_of_source

log = logging.getLogger(__name__)

REAP_TIMEOUT = 30.0
"""Seconds that a reaper has."""


class ReapProcess:
    """One process that takes back the jobs of one worker."""

    def __init__(self, command: Sequence[str], worker: str, started: Sequence[str] | None, now: float) -> None:
        self.worker = worker
        self._ends_at = now + REAP_TIMEOUT
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
            log_reap_failure(self.worker, code)
        return code is not None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def log_reap_failure(worker: str, cause: object) -> None:
    log.error(
        "jobs of worker %s not reaped (%s); they run again after their leases expire",
        worker,
        cause,
        extra={"worker": worker},
    )


def reap_dead(store: Claiming, message: str | bytes, *, source_index: int = 0) -> list[Reaped]:
    """Take back what a dead worker held of one of its sources, as a supervisor's message says.

    For the process that gets one, and for each source, by its number.
    """
    request = json.loads(message)
    started = None if request["started"] is None else frozenset(job_ids_of_source(source_index, request["started"]))
    reaped = part = store.reap(SWEEP, worker=request["worker"], started=started)
    while len(part) == SWEEP:
        part = store.reap(SWEEP, worker=request["worker"], started=started)
        reaped = [*reaped, *part]
    return reaped


def deregister_dead(registry: Backend, message: str | bytes) -> None:
    """Forget a dead worker, when all was taken back that it held.

    It would be taken for alive until its last sign of life is old; the history has it by now.
    """
    registry.beat(Heartbeat(name=json.loads(message)["worker"], host="", pid=0, version=""), 0.0)
