"""Do something to many jobs: in batches, at a rate, with a bar, and stopped between two batches by Ctrl-C."""

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

    from tenure.cli.output import Output

BATCHES = 4
"""How many batches a second, at most, when there is a rate."""

Act = Callable[[Sequence[str]], Sequence[Moved]]


class Bulk:
    """Ids to be acted on, so many a second. What was begun is finished: a batch is done, or it is not."""

    def __init__(self, ids: Sequence[str], *, rate: float | None, output: "Output") -> None:
        self._ids = ids
        self._rate = rate
        self._output = output
        self._stopped = threading.Event()
        self.stopped_by = 0

    @property
    def total(self) -> int:
        return len(self._ids)

    def run(self, act: Act, on_moved: Callable[[Moved], None]) -> int:
        """Act on all of them, and tell of each what became of it; return how many were acted on."""
        done = 0
        size = LARGEST_BATCH if self._rate is None else max(1, min(LARGEST_BATCH, int(self._rate / BATCHES)))
        begun_at = time.monotonic()
        with self._stopped_by_signals(), self._bar() as advance:
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
    def _stopped_by_signals(self) -> Iterator[None]:
        """Stop after the present batch at the first signal; a second has the effect that it had before."""

        def stop(number: int, _: object) -> None:
            self.stopped_by = number
            self._stopped.set()
            signals.restore()

        signals = StopSignals(stop)
        try:
            yield
        finally:
            signals.restore()

    def _bar(self) -> "AbstractContextManager[Callable[[int], None]]":
        console = self._output.console(is_error=True) if not self._output.is_json else None
        if console is None or not console.is_terminal or console.is_dumb_terminal:
            return nullcontext(lambda _: None)
        return _drawn(console, len(self._ids))


@contextmanager
def _drawn(console: "Console", total: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda number: progress.advance(bar, number)
