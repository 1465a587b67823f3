"""Act on many jobs: in batches, at a rate, with a progress bar. Ctrl-C stops between two batches."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from tenure.core.operations import LARGEST_BATCH, Moved
from tenure.signals import StopSignals

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

    from tenure.cli.output import CommandOutput

MAX_BATCHES_PER_SECOND = 4
"""Maximum number of batches a second if a rate is set."""

BulkAction = Callable[[Sequence[str]], Sequence[Moved]]


class Bulk:
    """Job ids to act on at a rate. A started batch is always finished."""

    def __init__(self, ids: Sequence[str], *, rate: float | None, output: "CommandOutput") -> None:
        self._ids = ids
        self._rate = rate
        self._output = output
        self._stopped = threading.Event()
        self.stop_signal = 0

    @property
    def total(self) -> int:
        return len(self._ids)

    def run(self, act: BulkAction, on_moved: Callable[[Moved], None]) -> int:
        """Act on all ids and pass the result for each id to `on_moved`. Return the number of ids processed."""
        done = 0
        size = (
            LARGEST_BATCH
            if self._rate is None
            else max(1, min(LARGEST_BATCH, int(self._rate / MAX_BATCHES_PER_SECOND)))
        )
        begun_at = time.monotonic()
        with self._stop_on_signals(), self._progress_bar() as advance:
            while done < len(self._ids) and not self._stopped.is_set():
                batch = self._ids[done : done + size]
                for each in act(batch):
                    on_moved(each)
                done += len(batch)
                advance(len(batch))
                if self._rate is not None and done < len(self._ids):
                    self._stopped.wait(max(0.0, begun_at + done / self._rate - time.monotonic()))
        return done

    @contextmanager
    def _stop_on_signals(self) -> Iterator[None]:
        """Stop after the current batch at the first signal. A second signal has its previous effect."""

        def stop(number: int, _: object) -> None:
            self.stop_signal = number
            self._stopped.set()
            signals.restore()

        signals = StopSignals(stop)
        try:
            yield
        finally:
            signals.restore()

    def _progress_bar(self) -> "AbstractContextManager[Callable[[int], None]]":
        console = self._output.console(is_error=True) if not self._output.is_json else None
        if console is None or not console.is_terminal or console.is_dumb_terminal:
            return nullcontext(lambda _: None)
        return _draw_progress_bar(console, len(self._ids))


@contextmanager
def _draw_progress_bar(console: "Console", total: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda number: progress.advance(bar, number)
