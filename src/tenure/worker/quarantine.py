"""Jobs that were held by workers which died: each may be what killed them.

What a process holds when it dies counts as crashed, the guilty and those beside it alike. So beside a suspect nothing
waits; and one that may crash only once more is claimed and run alone, so that no job is failed by another's crash.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tenure.client.run import Run
from tenure.worker.run_queue import Board

if TYPE_CHECKING:
    from tenure.worker.work_source import Supply


class Quarantine:
    """Decides what of a claim may begin. It is open again as soon as what it was closed for has been claimed."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._suspects: set[Run] = set()
        self._lone: Run | None = None
        self.is_closing = False
        self.is_closing_for: Supply | None = None
        """The source whose job is to be claimed alone."""

    def most(self, wanted: int) -> int:
        """Return how many of so many jobs to claim: none beside one that runs alone, and that one by itself."""
        if self._lone in self._board.running:
            return 0
        if not self.is_closing:
            return wanted
        return 0 if self._board.size else 1

    @property
    def has_suspects(self) -> bool:
        """Whether something runs beside which nothing may wait."""
        return not self._suspects.isdisjoint(self._board.running)

    def admit(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return what may begin now; the rest has to be given back before that."""
        suspects = [run for run in runs if run.job.crashes]
        self.is_closing, self.is_closing_for = False, None
        if not suspects:
            return runs
        self._suspects.update(suspects)
        last_chances = [run for run in suspects if run.is_last_chance]
        if last_chances:
            if len(runs) == 1 and self._board.size == 0:
                self._lone = runs[0]
                return runs
            self.is_closing, self.is_closing_for = True, last_chances[0].handler.supply
            runs = [run for run in runs if not run.is_last_chance]
        return runs[: max(0, self._board.concurrency - self._board.size)]

    def forget(self, runs: Iterable[Run]) -> None:
        """Note that these have ended."""
        self._suspects.difference_update(runs)
