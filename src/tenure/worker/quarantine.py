"""Jobs that were held by workers which died: each may be what killed them.

What a process holds when it dies counts as crashed, the guilty and those beside it alike. So beside a suspect nothing
waits; and one that may crash only once more is claimed and run alone, so that no job is failed by another's crash.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tenure.client.run import Run
from tenure.worker.run_queue import RunQueue

if TYPE_CHECKING:
    from tenure.worker.work_source import WorkSource


class Quarantine:
    """Decides what of a claim may begin. It is open again as soon as what it was closed for has been claimed."""

    def __init__(self, run_queue: RunQueue) -> None:
        self._run_queue = run_queue
        self._suspects: set[Run] = set()
        self._isolated: Run | None = None
        self.is_isolating = False
        self.isolates_for: WorkSource | None = None
        """The source whose job is to be claimed alone."""

    def limit(self, wanted: int) -> int:
        """Return how many of so many jobs to claim: none beside one that runs alone, and that one by itself."""
        if self._isolated in self._run_queue.running:
            return 0
        if not self.is_isolating:
            return wanted
        return 0 if self._run_queue.size else 1

    @property
    def has_suspects(self) -> bool:
        """Whether something runs beside which nothing may wait."""
        return not self._suspects.isdisjoint(self._run_queue.running)

    def admit(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return what may begin now; the rest has to be given back before that."""
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
        """Note that these have ended."""
        self._suspects.difference_update(runs)
