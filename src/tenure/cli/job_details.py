"""Format the details of one job as text."""

import json
from datetime import datetime
from typing import Any

from tenure.cli import formatting
from tenure.cli.json_output import to_json_value
from tenure.core.checks import EARLIEST
from tenure.core.durations import format_duration
from tenure.core.job import Job, State


def format_job(job: Job, now: datetime) -> str:
    """Return the job as text, one field a line. Empty fields are left out."""
    lines = [f"{name:<12} {text}" for name, text in _fields(job, now) if text]
    lines += _block("payload", job.payload)
    if job.state is State.COMPLETED:
        lines += (
            ["", "result       dropped: too long, or not valid JSON"]
            if job.result_dropped
            else _block("result", job.result)
        )
    if job.history:
        dropped = f", {job.history_dropped:,} older entries deleted" if job.history_dropped else ""
        lines += ["", f"history (newest last{dropped})"]
        for ending in job.history:
            by = f" by {ending.worker}" if ending.worker else ""
            lines.append(
                f"  {formatting.format_utc(ending.ended_at)}  {ending.outcome.value}, fence {ending.fence}{by}"
            )
            lines += [f"      {line}" for line in (ending.error or "").strip().splitlines()]
    return "\n".join(lines)


def _fields(job: Job, now: datetime) -> list[tuple[str, str]]:
    is_running = job.state is State.RUNNING
    return [
        ("id", job.id),
        ("type", job.type),
        ("queue", job.queue),
        ("state", f"{formatting.format_state(job, now)}{', cancel requested' if job.cancel_requested else ''}"),
        (
            "attempts",
            f"{job.attempts} of {job.max_attempts or 'unlimited'}; crashes {job.crashes} of {job.max_crashes}",
        ),
        ("fence", str(job.fence)),
        ("worker", job.worker or ""),
        ("lease until", _format_time(job.leased_until, now) if is_running else ""),
        ("progress", _progress(job)),
        ("priority", str(job.priority) if job.priority else ""),
        ("key", job.key or ""),
        ("time limit", format_duration(job.timeout) if job.timeout is not None else ""),
        ("enqueued", _format_time(job.created_at, now)),
        ("due", _format_time(job.run_at, now) if job.state is State.QUEUED else ""),
        ("last claimed", _format_time(job.started_at, now)),
        ("finished", _format_time(job.finished_at, now)),
        *((f"meta {name}", text) for name, text in job.meta.items()),
    ]


def _format_time(at: datetime | None, now: datetime) -> str:
    return "" if at is None or at <= EARLIEST else f"{formatting.format_utc(at)}, {formatting.format_relative(at, now)}"


def _progress(job: Job) -> str:
    if job.progress is None:
        return ""
    of = f" of {job.progress.of:g}" if job.progress.of is not None else ""
    return f"{job.progress.done:g}{of}{f', {job.progress.note}' if job.progress.note else ''}"


def _block(name: str, value: Any) -> list[str]:
    text = json.dumps(to_json_value(value), indent=2, ensure_ascii=False)
    return [f"{name:<12} {text}"] if "\n" not in text else ["", name, *(f"  {line}" for line in text.splitlines())]
