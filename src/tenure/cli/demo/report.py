"""The report of the demo: facts counted in the store, compared with the guarantees."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tenure
from tenure.cli.demo.traces import Trace, read_receipts, read_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedWorker:
    """A worker that was killed or frozen, and the claims that it held at the time."""

    worker: str
    started: frozenset[Trace]
    buffered: frozenset[Trace]

    @property
    def held(self) -> frozenset[Trace]:
        return self.started | self.buffered


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFacts:
    """The facts to check: the number of jobs, the killed worker and its replacement, and the frozen worker."""

    number: int
    killed: AffectedWorker
    successor: str
    frozen: AffectedWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """A line of the report: a fact, its source, and whether it holds."""

    text: str
    source: str
    number: int
    holds: bool


def build_report(jobs: tenure.Jobs, path: Path, facts: DemoFacts) -> list[ReportLine]:
    """Return the report, from the jobs, the event counts, the starts and the receipts of the store."""
    found = list(jobs.find())
    happened = Counter[tenure.Event]()
    for count in jobs.counts():
        happened[count.event] += count.number
    endings = {
        Trace(job.id, ending.fence, ending.worker or ""): ending.outcome for job in found for ending in job.history
    }
    return [
        *_job_lines(found, happened, facts),
        *_ending_lines(endings, happened, facts),
        *_repeat_lines(found, endings, read_starts(path)),
        *_receipt_lines(found, read_receipts(path), facts),
    ]


def _job_lines(found: Sequence[tenure.Job], happened: Counter[tenure.Event], facts: DemoFacts) -> list[ReportLine]:
    completed = sum(job.state is tenure.State.COMPLETED for job in found)
    repeated = happened[tenure.Event.COMPLETED] - completed
    lost = facts.number - len(found)
    return [
        _report_line("jobs completed", "jobs.find()", completed, completed == facts.number),
        _report_line("jobs lost", "jobs.find()", lost, lost == 0),
        _report_line("jobs completed more than once", "jobs.counts()", repeated, repeated == 0),
    ]


def _ending_lines(
    endings: Mapping[Trace, tenure.Outcome], happened: Counter[tenure.Event], facts: DemoFacts
) -> list[ReportLine]:
    expired = {trace for trace, outcome in endings.items() if outcome is tenure.Outcome.EXPIRED}
    released = {trace for trace, outcome in endings.items() if outcome is tenure.Outcome.RELEASED}
    killed, frozen, refused = facts.killed, facts.frozen, happened[tenure.Event.REFUSED]
    return [
        _claim_line("started jobs of the killed worker: 1 crash each", killed.started & expired, killed.started),
        _claim_line("buffered jobs of the killed worker: no crash", killed.buffered & released, killed.buffered),
        _claim_line("jobs taken over from the frozen worker: 1 crash each", frozen.held & expired, frozen.held),
        _report_line("late writes rejected", "jobs.counts()", refused, refused >= len(frozen.held)),
    ]


def _repeat_lines(
    found: Sequence[tenure.Job], endings: Mapping[Trace, tenure.Outcome], starts: Sequence[Trace]
) -> list[ReportLine]:
    crashes = sum(job.crashes for job in found)
    recorded = sum(outcome is tenure.Outcome.EXPIRED for outcome in endings.values())
    completed = {Trace.of(job) for job in found}
    repeated = len(starts) - len({start.job for start in starts})
    unrecorded = [start for start in starts if start not in completed and start not in endings]
    return [
        _report_line("crashes, each recorded in the history of its job", "job.crashes", crashes, crashes == recorded),
        _report_line("repeated runs, each recorded there as well", "demo.starts", repeated, not unrecorded),
    ]


def _receipt_lines(found: Sequence[tenure.Job], written: Sequence[Trace], facts: DemoFacts) -> list[ReportLine]:
    by_job = Counter(receipt.job for receipt in written)
    twice = sum(number > 1 for number in by_job.values())
    # A completed job keeps the fence and the worker of its last claim.
    completed = {Trace.of(job) for job in found}
    foreign = sum(receipt not in completed for receipt in written)
    succeeded = sum(receipt.worker == facts.successor for receipt in written)
    return [
        _report_line("receipts", "receipts", len(written), len(written) == facts.number),
        _report_line("jobs with more than one receipt", "receipts", twice, twice == 0),
        _report_line("receipts by a claim that did not complete the job", "receipts", foreign, foreign == 0),
        _report_line("receipts by the replacement of the killed worker", "receipts", succeeded, succeeded > 0),
    ]


def _claim_line(text: str, found: frozenset[Trace], wanted: frozenset[Trace]) -> ReportLine:
    return _report_line(text, "job.history", len(found), len(found) == len(wanted) > 0)


def _report_line(text: str, source: str, number: int, holds: bool) -> ReportLine:  # noqa: FBT001 - a row of a table
    return ReportLine(text=text, source=source, number=number, holds=holds)
