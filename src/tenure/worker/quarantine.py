"""Limit the damage of jobs that may crash their worker.

When a process dies, every job that it holds counts a crash, whichever job caused the death. A job with a crash is a
suspect: no jobs are buffered while it runs. A suspect that fails at its next crash is claimed and run alone, so that no
job is failed by the crash of another.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tenure.client.run import Run
from tenure.worker.run_queue import RunQueue

if TYPE_CHECKING:
    from tenure.worker.work_source import WorkSource


class Quarantine:
    """Decide which claimed runs may start. Claims are restricted until the job to be isolated has been claimed."""

    def __init__(self, run_queue: RunQueue) -> None:
        self._run_queue = run_queue
        self._suspects: set[Run] = set()
        self._isolated: Run | None = None
        self.is_isolating = False
        self.isolates_for: WorkSource | None = None
        """The source of the job that must be claimed alone."""

    def limit(self, wanted: int) -> int:
        """Return how many of the wanted jobs to claim: none while an isolated job runs, one to claim such a job."""
        if self._isolated in self._run_queue.running:
            return 0
        if not self.is_isolating:
            return wanted
        return 0 if self._run_queue.size else 1

    @property
    def has_suspects(self) -> bool:
        """Whether a suspect is running, so that no jobs may be buffered."""
        return not self._suspects.isdisjoint(self._run_queue.running)

    def admit(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return the runs that may start now. The caller must release the others first."""
        suspects = [run for run in runs if run.job.crashes]
        self.is_isolating, self.isolates_for = False, None
        if not suspects:
            return runs
        self._suspects.update(suspects)
        to_isolate = [run for run in suspects if run.runs_isolated]
        if to_isolate:
            if len(runs) == 1 and self._run_queue.size == 0:
                self._isolated = runs[0]
                return runs
            self.is_isolating, self.isolates_for = True, to_isolate[0].handler.source
            runs = [run for run in runs if not run.runs_isolated]
        return runs[: max(0, self._run_queue.concurrency - self._run_queue.size)]

    def remove(self, runs: Iterable[Run]) -> None:
        """Remove ended runs from the suspects."""
        self._suspects.difference_update(runs)
