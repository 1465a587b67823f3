"""Reap the jobs of a dead child in a separate process: the supervisor opens no store.

Jobs that the child had started count a crash; buffered jobs are released.
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
"""Seconds before a reap process is killed."""


class ReapProcess:
    """A process that reaps the jobs of a dead worker."""

    def __init__(self, command: Sequence[str], worker: str, started: Sequence[str] | None, now: float) -> None:
        self.worker = worker
        self._ends_at = now + REAP_TIMEOUT
        # A file, not a pipe: writing to a pipe could block until the process reads.
        with tempfile.TemporaryFile() as message:
            message.write(json.dumps({"worker": worker, "started": started}).encode())
            message.seek(0)
            self._process = subprocess.Popen(command, stdin=message, process_group=0)

    def has_ended(self, now: float) -> bool:
        """Return whether the process has exited. Kill it after the timeout; log a failure."""
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
    """Reap the jobs that a dead worker held in one source, given the supervisor's message.

    The reap process calls this once for each source, with the index of the source.
    """
    request = json.loads(message)
    started = None if request["started"] is None else frozenset(job_ids_of_source(source_index, request["started"]))
    reaped = part = store.reap(SWEEP, worker=request["worker"], started=started)
    while len(part) == SWEEP:
        part = store.reap(SWEEP, worker=request["worker"], started=started)
        reaped = [*reaped, *part]
    return reaped


def deregister_dead(registry: Backend, message: str | bytes) -> None:
    """Deregister a dead worker after its jobs were reaped.

    Otherwise the registry lists the worker until its last heartbeat expires. The history has been written by now.
    """
    registry.beat(Heartbeat(name=json.loads(message)["worker"], host="", pid=0, version=""), 0.0)
