"""Check each member of a run against its kind."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tenure.core.job import Job
from tests.neighbours.board import LogLine
from tests.neighbours.members import Kind, Member
from tests.neighbours.run import Outcome
from tests.processes.verdict import is_explained

SHOWN = 3
"""Number of faults of a kind that the report shows."""


def statements(outcome: Outcome) -> tuple[dict[str, bool], dict[str, list[str]]]:
    """Return for each kind whether its statement holds, and the first faults."""
    kinds = list(dict.fromkeys(member.kind for member in outcome.members))
    faults = {kind.name: list(_faults_of_kind(kind, outcome)) for kind in kinds}
    holds = {kind.says: not faults[kind.name] for kind in kinds}
    return holds, {name: [f"{len(found)} faults", *found[:SHOWN]] for name, found in faults.items() if found}


def _faults_of_kind(kind: Kind, outcome: Outcome) -> Iterator[str]:
    for member in outcome.members:
        if member.kind is kind:
            job = outcome.jobs.get(member.id)
            for fault in ["is missing"] if job is None else _faults(member, job, outcome):
                yield f"{member.id} {fault}"


def _faults(member: Member, job: Job, outcome: Outcome) -> Iterator[str]:
    kind, fences = member.kind, outcome.runs.get(member.id, [])
    lines = outcome.log_lines.get(member.id, [])
    if job.state is not kind.end:
        yield f"is {job.state}, not {kind.end}: {job.errors[-1:]}, log: {[line.text for line in lines[:2]]}"
        return
    yield from _faults_of_runs(kind, job, fences, lines)
    yield from _faults_of_the_end(kind, job)
    yield from _faults_of_the_log(kind, job, lines)


def _faults_of_runs(kind: Kind, job: Job, fences: list[int], lines: Sequence[LogLine]) -> Iterator[str]:
    endings = [f"{ending.outcome} {ending.fence}" for ending in job.history]
    story = f"ran with fences {fences}, history {endings}, log {[line.text for line in lines]}"
    if kind.runs is None and not is_explained(job, fences):
        yield f"{story}, not explained by its history"
    if kind.runs is not None and len(fences) not in kind.runs:
        yield f"{story}, not {kind.runs} times"
    if kind.crashes is not None and job.crashes != kind.crashes:
        yield f"{story}, with {job.crashes} crashes, not {kind.crashes}"


def _faults_of_the_end(kind: Kind, job: Job) -> Iterator[str]:
    if kind.error is not None and not (job.errors and kind.error in job.errors[-1]):
        yield f"has the errors {[error[-200:] for error in job.errors]}, without {kind.error!r}"
    if kind.result is not None and job.result != kind.result:
        yield f"has the result {str(job.result)[:100]}, not {kind.result!r}"
    if kind.drops_result != job.result_dropped:
        yield f"has result_dropped={job.result_dropped}"


def _faults_of_the_log(kind: Kind, job: Job, lines: Sequence[LogLine]) -> Iterator[str]:
    texts = [line.text for line in lines[:2]]
    if kind.logged is not None:
        by_worker = Counter(line.worker for line in lines if kind.logged in line.text)
        if not by_worker or max(by_worker.values()) > max(1, job.fence):
            yield f"was claimed {job.fence} times and is logged {dict(by_worker)}: {texts}"
    if (kind.is_good or kind.is_locked) and any(line.level == "ERROR" for line in lines):
        yield f"has an error in the log: {texts}"


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return the numbers of a run for the report."""
    good = {member.id for member in outcome.members if member.kind.is_good}
    levels = Counter(line.level for lines in outcome.log_lines.values() for line in lines)
    general = Counter(line.text for line in outcome.log_lines.get("", []))
    return {
        "members": len(outcome.members),
        "good in seconds": _rounded(outcome.good_in),
        "all but the locked in seconds": _rounded(outcome.unlocked_in),
        "all in seconds": _rounded(outcome.ended_in),
        "last of each kind after seconds": _last_ends(outcome),
        "locked": outcome.locked,
        "states": {f"{kind} {state}": number for (kind, state), number in sorted(outcome.states.items()) if number},
        "claims per good member": _claims_per_member(outcome, good),
        "log lines": dict(levels),
        "log lines about good members": {id: lines[0].text for id, lines in _about(outcome, good)[:SHOWN]},
        "log lines without a member": dict(general.most_common(SHOWN)),
    }


def _claims_per_member(outcome: Outcome, ids: Collection[str]) -> float:
    """Return the mean number of claims; each claim but the last was released or lost."""
    fences = [job.fence for id, job in outcome.jobs.items() if id in ids]
    return round(sum(fences) / max(1, len(fences)), 2)


def _about(outcome: Outcome, ids: Collection[str]) -> list[tuple[str, list[LogLine]]]:
    return [(id, lines) for id, lines in outcome.log_lines.items() if id in ids]


def _last_ends(outcome: Outcome) -> dict[str, float]:
    """Return when the last member of each kind ended, from the first start, by the clock of the store."""
    started_at = min((job.started_at for job in outcome.jobs.values() if job.started_at is not None), default=None)
    found: dict[str, float] = {}
    for member in outcome.members:
        job = outcome.jobs.get(member.id)
        if job is not None and job.finished_at is not None and started_at is not None:
            seconds = round((job.finished_at - started_at).total_seconds(), 2)
            found[member.kind.name] = max(seconds, found.get(member.kind.name, 0.0))
    return found


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
