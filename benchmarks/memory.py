"""The memory of a worker over many jobs: finished jobs must not leave anything in the process.

A worker on SQLite runs jobs that another process enqueues in batches. The file contains many failed jobs and the
retention is zero, so the janitor has much to delete from the start. In a second run some tasks fail with a traceback.
"""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.queues import Queue as Answers
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty

from rich.console import Console

from benchmarks.alone import alone, be_quiet
from benchmarks.machine import Machine, new_folder
from benchmarks.readings import Result
from benchmarks.report import WIDTH, new_table
from tenure import ConfigurationError, Jobs, NewJob, Retention

FAILING = {"all succeed": 0, "1 of 20 fails": 20}
"""By the name of a run: one job of this many fails; 0 for none."""
READINGS = 10
FAILED_BEFORE = 12_000
"""More jobs than the janitor deletes in one run: so the next run comes after a second instead of a minute."""
PORTION = 2_000
MOST_WAITING = 10_000
PAUSE = 0.01
"""Seconds between two checks whether to enqueue more jobs."""
STATUS = Path("/proc/self/status")
MEGABYTE = 1_024
"""The kernel reports kilobytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Megabytes of a worker's process: resident memory, and its private part without file pages."""

    resident: float
    own: float


@dataclass(slots=True, kw_only=True)
class Grown:
    """One run."""

    name: str
    jobs: int = 0
    """Jobs that ran before the time limit; normally all."""
    seconds: float = 0.0
    readings: list[Reading] = field(default_factory=list)

    def since_the_first(self) -> float:
        """Return the growth in megabytes since the first reading, when everything was loaded."""
        return self.readings[-1].resident - self.readings[0].resident if self.readings else 0.0


@dataclass(slots=True, kw_only=True)
class MemoryResult(Result):
    jobs: int
    every: int
    """Jobs between two readings of the memory."""
    runs: list[Grown] = field(default_factory=list)


def measure(*, jobs: int, seconds: float, folder: Path, say: Callable[[str], None]) -> MemoryResult:
    """Run the jobs with and without failures, each run at most the given number of seconds."""
    if not STATUS.exists():
        raise ConfigurationError(f"cannot read the memory of a process: {STATUS} does not exist; use Linux")
    result = MemoryResult(benchmark="memory", machine=Machine.here(folder), jobs=jobs, every=max(1, jobs // READINGS))
    for name in FAILING:
        say(f"{jobs:,} jobs, {name}")
        with new_folder(folder) as place:
            result.runs.append(grow(name, result, seconds, f"sqlite:///{place / 'tenure.db'}"))
    return result


def grow(name: str, result: MemoryResult, seconds: float, url: str) -> Grown:
    """Enqueue jobs for a worker, and collect its memory readings."""
    context = multiprocessing.get_context("spawn")
    answers, is_over = context.Queue(), context.Event()
    worker = context.Process(target=_work, args=(url, FAILING[name], result.every, answers, is_over), daemon=True)
    grown, fed = Grown(name=name), 0
    alone(leave_failed, url)
    with Jobs(url) as jobs:
        worker.start()
        started = time.monotonic()
        while grown.jobs < result.jobs and worker.is_alive() and time.monotonic() - started < seconds:
            # Enqueue until the end: without other writers, SQLite's cache keeps the file, which would look like growth.
            if jobs.stats().total("due") < MOST_WAITING:
                jobs.enqueue_many(NewJob("work", {"n": n}, max_attempts=1) for n in range(fed, fed + PORTION))
                fed += PORTION
            _take_down(grown, result.every, answers)
        grown.seconds = time.monotonic() - started
        is_over.set()
        worker.join()
    return grown


def leave_failed(url: str) -> None:
    with Jobs(url) as jobs:

        @jobs.task("before", max_attempts=1)
        def fail() -> None:
            raise RuntimeError("it fails")

        for _ in range(0, FAILED_BEFORE, PORTION):
            jobs.enqueue_many(fail.job() for _ in range(PORTION))
        jobs.work(drain=True)


def _take_down(grown: Grown, every: int, answers: "Answers[Reading]") -> None:
    try:
        grown.readings.append(answers.get(timeout=PAUSE))
    except Empty:
        return
    grown.jobs += every


def _work(url: str, failing: int, every: int, answers: "Answers[Reading]", is_over: Event) -> None:
    be_quiet()
    done = 0
    with Jobs(url, retention=Retention(completed=0, failed=0)) as jobs:

        @jobs.task("work")
        async def work(n: int) -> None:
            nonlocal done
            done += 1
            if done % every == 0:
                answers.put(_memory())
            if failing and n % failing == 0:
                raise RuntimeError(f"{n} fails")

        with jobs.worker():
            is_over.wait()


def _memory() -> Reading:
    values = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    resident, own = (int(values[name].split()[0]) / MEGABYTE for name in ("VmRSS", "RssAnon"))
    return Reading(resident=resident, own=own)


def show(result: MemoryResult) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(
        f"\n[bold]{result.benchmark}[/bold]: a worker on SQLite; resident megabytes, private ones in brackets"
    )
    console.print(f"{result.machine}", style="dim")
    table = new_table()
    for run in result.runs:
        table.add_column(run.name, justify="right")
    for number in range(max(len(run.readings) for run in result.runs)):
        cells = (run.readings[number : number + 1] for run in result.runs)
        texts = (f"{each[0].resident:.1f} ({each[0].own:.1f})" if each else "–" for each in cells)
        table.add_row(f"after {(number + 1) * result.every:,} jobs", *texts)
    table.add_row("grown since the first", *(f"{run.since_the_first():+.1f}" for run in result.runs))
    table.add_row("seconds", *(f"{run.seconds:.0f}" for run in result.runs))
    console.print(table)
