"""The workers of a run: processes, or threads for a target in memory.

    python -m tests.neighbours.workers FOLDER NAME

A worker process builds its target from the options in the folder. Then it waits for the start signal.
"""

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tenure
from tenure.client.worker_options import WorkerOptions
from tests.neighbours.board import Board, wait_until
from tests.neighbours.settings import CONCURRENCY, LEASE, WORKERS
from tests.neighbours.stores import StoreTarget
from tests.neighbours.tables import PostgresTableTarget, SQLiteTableTarget
from tests.neighbours.target import Source, Target
from tests.playing import ROOT

START = "start"
OPTIONS = "options.json"
STOP_TIMEOUT = 60.0
TARGETS: dict[str, Callable[..., Target]] = {
    each.__name__: each for each in (StoreTarget, SQLiteTableTarget, PostgresTableTarget)
}


class Crew:
    """The workers; `start` lets them claim, and `codes` are their exit codes after the end of the block."""

    def __init__(self, start: Callable[[], None]) -> None:
        self.start = start
        self.codes: list[int] = []


@contextmanager
def crew_of(target: Target, board: Board) -> Iterator[Crew]:
    """Prepare the workers; stop them at the end of the block."""
    with _processes_of(target, board) if target.has_own_processes else _threads_of(target, board) as crew:
        yield crew


@contextmanager
def _processes_of(target: Target, board: Board) -> Iterator[Crew]:
    crew = Crew(lambda: board.set(START))
    (board.folder / OPTIONS).write_text(json.dumps([type(target).__name__, target.options]))
    names = [f"worker-{number}" for number in range(WORKERS)]
    processes = [_start_process(board, name) for name in names]
    try:
        wait_until(lambda: all(board.is_set(f"{name}-ready") for name in names), STOP_TIMEOUT, "start of the workers")
        yield crew
        for process in processes:
            process.send_signal(signal.SIGTERM)
        crew.codes = [process.wait(STOP_TIMEOUT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start_process(board: Board, name: str) -> "subprocess.Popen[bytes]":
    with (board.folder / f"{name}.stderr").open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.neighbours.workers", str(board.folder), name], cwd=ROOT, stderr=stderr
        )


@contextmanager
def _threads_of(target: Target, board: Board) -> Iterator[Crew]:
    logger, handler = logging.getLogger("tenure"), board.log_handler()
    logger.addHandler(handler)
    logger.propagate = False
    source = target.open_source(board)
    workers = [source.worker(**options_for(source)) for _ in range(WORKERS)]
    try:
        with ExitStack() as running:

            def start() -> None:
                for worker in workers:
                    running.enter_context(worker)

            crew = Crew(start)
            yield crew
        crew.codes = [0] * WORKERS
    finally:
        logger.propagate = True
        logger.removeHandler(handler)
        handler.close()


def options_for(source: Source) -> WorkerOptions:
    """Return the options of a worker. The lease of a table is an option of the table."""
    return (
        {"concurrency": CONCURRENCY, "lease": LEASE}
        if isinstance(source, tenure.Jobs)
        else {"concurrency": CONCURRENCY}
    )


def work(folder: str, name: str) -> None:
    """Run a worker until SIGTERM."""
    # Good members alone may be completed before this worker starts. The worker unblocks the signal when it handles it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    board = Board(Path(folder), name)
    logging.getLogger().addHandler(board.log_handler())
    kind, options = json.loads((board.folder / OPTIONS).read_text())
    target: Target = TARGETS[kind](**options)
    source = target.open_source(board)
    with source:
        board.set(f"{name}-ready")
        board.wait_for(START)
        source.work(**options_for(source))


if __name__ == "__main__":
    work(*sys.argv[1:])
