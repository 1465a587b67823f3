"""The place of one child: who stands there now, and when the next one is to."""

import logging
import random

from tenure.supervisor.child import Child
from tenure.supervisor.config import Plan
from tenure.supervisor.memory import resident_bytes
from tenure.supervisor.reaping import Reaping, say_that_it_failed
from tenure.supervisor.restart_backoff import Pauses

log = logging.getLogger(__name__)

MISUSE = 2
"""The exit code of a child that was told something wrong, and would end so again."""
MOST_FAILURES = 3
SPREAD = 0.1
"""By what part of it the limit of a child differs from that of the others, so that they do not end together."""


class Post:
    """There is one child at a time, and none before the jobs of the last one were taken back."""

    def __init__(self, plan: Plan) -> None:
        self.child: Child | None = None
        self.is_done = False
        """Whether no child is needed here any more."""
        self.is_recycling = False
        """Whether a child is being replaced, and the next one does not work yet."""
        self.has_refused = False
        self._plan = plan
        self._reaping: Reaping | None = None
        self._failures = 0
        self._pauses = Pauses()
        self._start_at = 0.0
        self._most_runs: float | None = None

    @property
    def is_empty(self) -> bool:
        return self.child is None and self._reaping is None

    @property
    def is_hopeless(self) -> bool:
        """Whether a child that never came to run would not come to run the next time either."""
        return self.has_refused or self._failures >= MOST_FAILURES

    def is_due(self, now: float) -> bool:
        """Whether a child is to be started."""
        return self.is_empty and not self.is_done and now >= self._start_at

    def begin_anew(self) -> None:
        """Forget how earlier children ended."""
        self.has_refused = False
        self._failures = 0
        self._pauses = Pauses()
        self._start_at = 0.0

    def start(self, now: float) -> None:
        """Start a child."""
        plan = self._plan
        try:
            self.child = Child(plan.command, plan.grace, plan.margin, now)
        except OSError as exc:
            log.error("a worker process cannot be started: %s", exc)  # noqa: TRY400 - it says all that there is to say
            self.note_death(None, 0.0, now)
            return
        if plan.max_jobs is not None:
            self._most_runs = plan.max_jobs * random.uniform(1 - SPREAD, 1 + SPREAD)
        log.debug("worker process %s started", self.child.pid, extra={"pid": self.child.pid})

    def note_death(self, code: int | None, ran_for: float, now: float) -> None:
        """Take in that a child ended that was not to, and when the next one may be started."""
        self.is_recycling = False
        self.has_refused = self.has_refused or code == MISUSE
        self._failures += 1
        self._start_at = now + self._pauses.after(ran_for)

    def take_back(self, worker: str, started: list[str] | None, now: float) -> None:
        """Have the jobs taken back that a dead child held."""
        try:
            self._reaping = Reaping(self._plan.reap_command, worker, started, now)
        except OSError as exc:
            say_that_it_failed(worker, exc)

    def look_at_reaping(self, now: float) -> None:
        if self._reaping is not None and self._reaping.has_ended(now):
            self._reaping = None

    def why_replace(self) -> str | None:
        """Return why the child is to be replaced, if it is."""
        child, plan = self.child, self._plan
        if child is None or child.reason is not None:
            return None
        if self._most_runs is not None and child.ended_runs >= self._most_runs:
            return f"it has ended {child.ended_runs:,} runs"
        # One that did nothing yet would not become smaller.
        if plan.max_memory is not None and child.has_worked:
            has = resident_bytes(child.pid)
            if has is not None and has > plan.max_memory:
                return f"it has {has / 2**20:,.0f} MiB of memory"
        return None

    def close(self) -> None:
        """Let go of what is left. A child that still runs ends by itself."""
        if self.child is not None:
            self.child.close()
