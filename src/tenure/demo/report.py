"""What the store says afterwards, beside what was promised."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tenure
from tenure.demo import receipts
from tenure.demo.receipts import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What the store is examined for: how many jobs there were, and what was done to whom."""

    number: int
    killed: str
    frozen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A fact, where it was counted, and whether it is as promised."""

    text: str
    source: str
    number: int
    holds: bool


def examine(jobs: tenure.Jobs, path: Path, played: Played) -> list[Line]:
    """Return what the jobs, the counts and the receipts in this file say."""
    found = list(jobs.find())
    return [*_of_jobs(jobs, found, played), *_of_receipts(receipts.read(path), found, played)]


def _of_jobs(jobs: tenure.Jobs, found: Sequence[tenure.Job], played: Played) -> list[Line]:
    happened = Counter[tenure.Event]()
    for count in jobs.counts():
        happened[count.event] += count.number
    completed = sum(job.state is tenure.State.COMPLETED for job in found)
    again = happened[tenure.Event.COMPLETED] - completed
    lost = played.number - len(found)
    taken = Counter(
        ending.worker for job in found for ending in job.history if ending.outcome is tenure.Outcome.EXPIRED
    )
    refused = happened[tenure.Event.REFUSED]
    of_killed, of_frozen = taken[played.killed], taken[played.frozen]
    return [
        _line("jobs completed", "jobs.find()", completed, completed == played.number),
        _line("jobs lost", "jobs.find()", lost, lost == 0),
        _line("jobs completed more than once", "jobs.counts()", again, again == 0),
        _line("claims taken over from the killed worker", "job.history", of_killed, of_killed > 0),
        _line("claims taken over from the frozen worker", "job.history", of_frozen, of_frozen > 0),
        _line("late writes refused", "jobs.counts()", refused, refused >= of_frozen > 0),
    ]


def _of_receipts(written: Sequence[Receipt], found: Sequence[tenure.Job], played: Played) -> list[Line]:
    by_job = Counter(receipt.job for receipt in written)
    twice = sum(number > 1 for number in by_job.values())
    # A completed job keeps the fence and the worker of the claim that completed it.
    endings = {Receipt(job.id, job.fence, job.worker or "") for job in found}
    strange = sum(receipt not in endings for receipt in written)
    return [
        _line("receipts", "receipts", len(written), len(written) == played.number),
        _line("jobs with more than one receipt", "receipts", twice, twice == 0),
        _line("receipts not of the claim that completed the job", "receipts", strange, strange == 0),
    ]


def _line(text: str, source: str, number: int, holds: bool) -> Line:  # noqa: FBT001 - a row of a table
    return Line(text=text, source=source, number=number, holds=holds)
