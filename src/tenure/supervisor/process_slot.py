"""Manage one worker process: start, replace, restart after a crash."""

import logging
import random

from tenure.supervisor.child import Child
from tenure.supervisor.config import SupervisorConfig
from tenure.supervisor.memory import resident_bytes
from tenure.supervisor.reaping import ReapProcess, log_reap_failure
from tenure.supervisor.restart_backoff import RestartBackoff

log = logging.getLogger(__name__)

USAGE_EXIT_CODE = 2
"""Exit code of a child with a usage error. A restart would fail in the same way."""
MAX_START_FAILURES = 3
MAX_JOBS_JITTER = 0.1
"""Jitter applied to each child's job limit, so that children are not recycled at the same time."""


class ProcessSlot:
    """At most one child. The next one starts after the jobs of the previous one were reaped."""

    def __init__(self, config: SupervisorConfig) -> None:
        self.child: Child | None = None
        self.is_done = False
        """Whether no further child is needed."""
        self.is_recycling = False
        """Whether a child is being replaced and the next one is not ready yet."""
        self.has_usage_error = False
        self._config = config
        self._reaping: ReapProcess | None = None
        self._failures = 0
        self._backoff = RestartBackoff()
        self._start_at = 0.0
        self._max_runs: float | None = None

    @property
    def is_empty(self) -> bool:
        return self.child is None and self._reaping is None

    @property
    def cannot_start(self) -> bool:
        """Whether another try to start a child would be useless: after a usage error, or several failures."""
        return self.has_usage_error or self._failures >= MAX_START_FAILURES

    def is_due(self, now: float) -> bool:
        """Return whether a child should be started now."""
        return self.is_empty and not self.is_done and now >= self._start_at

    def reset(self) -> None:
        """Clear the failures of earlier children."""
        self.has_usage_error = False
        self._failures = 0
        self._backoff = RestartBackoff()
        self._start_at = 0.0

    def start(self, now: float) -> None:
        config = self._config
        try:
            self.child = Child(config.command, config.grace, config.kill_margin, now)
        except OSError as exc:
            log.error("worker process not started: %s", exc)  # noqa: TRY400 - the message is enough
            self.record_death(None, 0.0, now)
            return
        if config.max_jobs is not None:
            self._max_runs = config.max_jobs * random.uniform(1 - MAX_JOBS_JITTER, 1 + MAX_JOBS_JITTER)
        log.debug("worker process %s started", self.child.pid, extra={"pid": self.child.pid})

    def record_death(self, code: int | None, ran_for: float, now: float) -> None:
        """Record that a child exited unexpectedly, and set the earliest restart."""
        self.is_recycling = False
        self.has_usage_error = self.has_usage_error or code == USAGE_EXIT_CODE
        self._failures += 1
        self._start_at = now + self._backoff.delay_after(ran_for)

    def reap(self, worker: str, entries: list[str] | None, now: float) -> None:
        """Start a process that reaps the jobs of a dead child."""
        try:
            self._reaping = ReapProcess(self._config.reap_command, worker, entries, now)
        except OSError as exc:
            log_reap_failure(worker, exc)

    def check_reaping(self, now: float) -> None:
        if self._reaping is not None and self._reaping.has_ended(now):
            self._reaping = None

    def replacement_reason(self) -> str | None:
        """Return why the child should be replaced; None if it should not."""
        child, config = self.child, self._config
        if child is None or child.reason is not None:
            return None
        if self._max_runs is not None and child.ended_runs >= self._max_runs:
            return f"{child.ended_runs:,} jobs run"
        # A new child that has run no job would not be smaller.
        if config.max_memory is not None and child.has_worked:
            resident = resident_bytes(child.pid)
            if resident is not None and resident > config.max_memory:
                return f"{resident / 2**20:,.0f} MiB of memory used"
        return None

    def close(self) -> None:
        """Close the files of the child. A child that still runs then stops."""
        if self.child is not None:
            self.child.close()
