"""What the store says afterwards, beside what was promised."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tenure
from tenure.cli.demo.traces import Trace, read_receipts, read_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """A worker to which something was done, and the claims that it held then."""

    worker: str
    started: frozenset[Trace]
    buffered: frozenset[Trace]

    @property
    def held(self) -> frozenset[Trace]:
        return self.started | self.buffered


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What the store is examined for: how many jobs there were, what was done to whom, and who came then."""

    number: int
    killed: Caught
    successor: str
    frozen: Caught


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A fact, where it was counted, and whether it is as promised."""

    text: str
    source: str
    number: int
    holds: bool


def examine(jobs: tenure.Jobs, path: Path, played: Played) -> list[Line]:
    """Return what the jobs, the counts, the starts and the receipts of this store say."""
    found = list(jobs.find())
    happened = Counter[tenure.Event]()
    for count in jobs.counts():
        happened[count.event] += count.number
    endings = {
        Trace(job.id, ending.fence, ending.worker or ""): ending.outcome for job in found for ending in job.history
    }
    return [
        *_of_jobs(found, happened, played),
        *_of_endings(endings, happened, played),
        *_of_repetitions(found, endings, read_starts(path)),
        *_of_receipts(found, read_receipts(path), played),
    ]


def _of_jobs(found: Sequence[tenure.Job], happened: Counter[tenure.Event], played: Played) -> list[Line]:
    completed = sum(job.state is tenure.State.COMPLETED for job in found)
    again = happened[tenure.Event.COMPLETED] - completed
    lost = played.number - len(found)
    return [
        _line("jobs completed", "jobs.find()", completed, completed == played.number),
        _line("jobs lost", "jobs.find()", lost, lost == 0),
        _line("jobs completed more than once", "jobs.counts()", again, again == 0),
    ]


def _of_endings(endings: Mapping[Trace, tenure.Outcome], happened: Counter[tenure.Event], played: Played) -> list[Line]:
    expired = {trace for trace, outcome in endings.items() if outcome is tenure.Outcome.EXPIRED}
    released = {trace for trace, outcome in endings.items() if outcome is tenure.Outcome.RELEASED}
    killed, frozen, refused = played.killed, played.frozen, happened[tenure.Event.REFUSED]
    return [
        _claims("jobs that the killed worker had started: a crash each", killed.started & expired, killed.started),
        _claims("jobs that it had only buffered: no crash", killed.buffered & released, killed.buffered),
        _claims("jobs taken over from the frozen worker: a crash each", frozen.held & expired, frozen.held),
        _line("late writes refused", "jobs.counts()", refused, refused >= len(frozen.held)),
    ]


def _of_repetitions(
    found: Sequence[tenure.Job], endings: Mapping[Trace, tenure.Outcome], starts: Sequence[Trace]
) -> list[Line]:
    crashes = sum(job.crashes for job in found)
    told = sum(outcome is tenure.Outcome.EXPIRED for outcome in endings.values())
    completed = {Trace.of(job) for job in found}
    again = len(starts) - len({start.job for start in starts})
    untold = [start for start in starts if start not in completed and start not in endings]
    return [
        _line("crashes in all, each told in the history of its job", "job.crashes", crashes, crashes == told),
        _line("runs that were repeated, each told there as well", "demo.starts", again, not untold),
    ]


def _of_receipts(found: Sequence[tenure.Job], written: Sequence[Trace], played: Played) -> list[Line]:
    by_job = Counter(receipt.job for receipt in written)
    twice = sum(number > 1 for number in by_job.values())
    # A completed job keeps the fence and the worker of the claim that completed it.
    completed = {Trace.of(job) for job in found}
    strange = sum(receipt not in completed for receipt in written)
    succeeded = sum(receipt.worker == played.successor for receipt in written)
    return [
        _line("receipts", "receipts", len(written), len(written) == played.number),
        _line("jobs with more than one receipt", "receipts", twice, twice == 0),
        _line("receipts not of the claim that completed the job", "receipts", strange, strange == 0),
        _line("receipts of the worker started for the killed one", "receipts", succeeded, succeeded > 0),
    ]


def _claims(text: str, found: frozenset[Trace], wanted: frozenset[Trace]) -> Line:
    return _line(text, "job.history", len(found), len(found) == len(wanted) > 0)


def _line(text: str, source: str, number: int, holds: bool) -> Line:  # noqa: FBT001 - a row of a table
    return Line(text=text, source=source, number=number, holds=holds)
