"""All that is known of one job, for people."""

import json
from datetime import datetime
from typing import Any

from tenure.cli import formatting as words
from tenure.cli.json_output import plain
from tenure.core.checks import EARLIEST
from tenure.core.durations import shown_duration
from tenure.core.job import Job, State


def sheet_of(job: Job, now: datetime) -> str:
    """Return the job as text, fact by fact; what it has not is left out."""
    lines = [f"{name:<12} {text}" for name, text in _facts(job, now) if text]
    lines += _block("payload", job.payload)
    if job.state is State.COMPLETED:
        lines += (
            ["", "result       dropped: it was too long, or no JSON"]
            if job.result_dropped
            else _block("result", job.result)
        )
    if job.history:
        dropped = f", {job.history_dropped:,} older ones are forgotten" if job.history_dropped else ""
        lines += ["", f"history (the newest last{dropped})"]
        for ending in job.history:
            by = f" by {ending.worker}" if ending.worker else ""
            lines.append(f"  {words.clock(ending.ended_at)}  {ending.outcome.value}, fence {ending.fence}{by}")
            lines += [f"      {line}" for line in (ending.error or "").strip().splitlines()]
    return "\n".join(lines)


def _facts(job: Job, now: datetime) -> list[tuple[str, str]]:
    is_running = job.state is State.RUNNING
    return [
        ("id", job.id),
        ("type", job.type),
        ("queue", job.queue),
        ("state", f"{words.state_of(job, now)}{', a cancel was asked for' if job.cancel_requested else ''}"),
        (
            "attempts",
            f"{job.attempts} of {job.max_attempts or 'any number'}; crashes {job.crashes} of {job.max_crashes}",
        ),
        ("fence", str(job.fence)),
        ("worker", job.worker or ""),
        ("lease until", _at(job.leased_until, now) if is_running else ""),
        ("progress", _progress(job)),
        ("priority", str(job.priority) if job.priority else ""),
        ("key", job.key or ""),
        ("time limit", shown_duration(job.timeout) if job.timeout is not None else ""),
        ("enqueued", _at(job.created_at, now)),
        ("due", _at(job.run_at, now) if job.state is State.QUEUED else ""),
        ("last claimed", _at(job.started_at, now)),
        ("finished", _at(job.finished_at, now)),
        *((f"meta {name}", text) for name, text in job.meta.items()),
    ]


def _at(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None or moment <= EARLIEST else f"{words.clock(moment)}, {words.ago(moment, now)}"


def _progress(job: Job) -> str:
    if job.progress is None:
        return ""
    of = f" of {job.progress.of:g}" if job.progress.of is not None else ""
    return f"{job.progress.done:g}{of}{f', {job.progress.note}' if job.progress.note else ''}"


def _block(name: str, value: Any) -> list[str]:
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    return [f"{name:<12} {text}"] if "\n" not in text else ["", name, *(f"  {line}" for line in text.splitlines())]
