"""`tenure enqueue`."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import duration, parse_json, read_text, timestamp
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.core.job import NewJob
from tenure.core.operations import LARGEST_ENQUEUE
from tenure.errors import TenureError, UnknownTask

if TYPE_CHECKING:
    from tenure.client.jobs import Jobs

JOB_FIELDS = [name for name in NewJob.__annotations__ if name != "_"]


UNLIMITED = 0


def parse_attempts(value: str) -> int:
    """Parse a number of attempts; `none` means `UNLIMITED`."""
    if value == "none":
        return UNLIMITED
    if not value.isdecimal() or int(value) == 0:
        raise click.BadParameter(f"invalid number of attempts {value!r}: use 1 or more, or none for no limit")
    return int(value)


@click.command(short_help="Enqueue jobs.")
@click.argument("type", required=False)
@click.argument("payload", required=False)
@click.option("--lines", metavar="FILE", help="Enqueue a job for each JSON line of FILE; - is the standard input.")
@click.option("--queue", "-q", metavar="NAME", help="Queue; default: default.")
@click.option("--priority", type=int, metavar="N", help="Higher runs first; default: 0.")
@click.option("--delay", type=duration, help="Due after this time: 30s, 10m, 2h.")
@click.option("--at", "run_at", type=timestamp, metavar="TIME", help="Due at this time: 2026-12-24T18:00Z.")
@click.option("--key", metavar="KEY", help="Uniqueness key: at most one live job in the queue.")
@click.option(
    "--on-conflict",
    type=click.Choice(["keep", "raise"]),
    help="If the key is taken: print the id of that job, or exit with 1.",
)
@click.option("--max-attempts", type=parse_attempts, metavar="N", help="Default: 5; none for no limit.")
@click.option("--max-crashes", type=int, metavar="N", help="Default: 3.")
@click.option("--timeout", type=duration, help="Time limit of a run.")
@click.option("--meta", multiple=True, metavar="NAME=TEXT", help="Label; repeatable.")
@click.option("--id", metavar="ID", help="Id of the job; enqueueing an id twice stores one job.")
@with_store_options
@with_output
def enqueue(
    store_target: StoreTarget,
    output: CommandOutput,
    type: str | None,
    payload: str | None,
    lines: str | None,
    **options: Any,
) -> None:
    """Enqueue a job, and print its id.

    PAYLOAD is a JSON object; - reads it from the standard input, @FILE from a file. With --app, TYPE must be a task of
    your Jobs and PAYLOAD must match its parameters; the options of the task are the defaults.

    \b
    Examples:
      tenure enqueue send '{"message_id": 7, "to": "ada@example.org"}'
      tenure enqueue report --queue slow --delay 10m --key daily
      tenure enqueue send @message.json --app app:jobs
      jq -c '{type: "send", payload: .}' messages | tenure enqueue --lines -
    """
    if (type is None) == (lines is None):
        raise click.UsageError("pass either a type, as in `tenure enqueue send '{}'`, or --lines FILE")
    given = {name: value for name, value in options.items() if value not in {None, ()}}
    if "meta" in given:
        given["meta"] = dict(_parse_label(each) for each in given["meta"])
    if given.get("max_attempts") == UNLIMITED:
        given["max_attempts"] = None
    with store_target.jobs(may_create=True) as store:
        if lines is None:
            content = {} if payload is None else parse_json(read_text(payload, "the payload"), "the payload")
            new = [_new_job(store, store_target, str(type), content, given)]
        else:
            new = _parse_lines(
                read_text(lines if lines == "-" else f"@{lines}", "the input"), store, store_target, given
            )
        for job in new:
            # Check all jobs before storing the first.
            job.record("checked")
        for start in range(0, len(new), LARGEST_ENQUEUE):
            part = new[start : start + LARGEST_ENQUEUE]
            try:
                ids = store.enqueue_many(part)
            except TenureError as exc:
                exc.add_note(f"{start:,} of {len(new):,} jobs were enqueued" if start else "no job was enqueued")
                raise
            for job, id in zip(part, ids, strict=True):
                if output.is_json:
                    output.print_record({"id": id, "type": job.type, "queue": job.queue})
                output.print_text(id)


def _new_job(store: "Jobs", store_target: StoreTarget, type: str, payload: Any, options: Mapping[str, Any]) -> NewJob:
    if store_target.app is None:
        return NewJob(type, payload, **options)
    if (task := store.tasks.get(type)) is None:
        from tenure.core.checks import did_you_mean

        raise UnknownTask(
            f"{store_target.app} has no task {type!r}{did_you_mean(type, store.tasks)} (if another module defines the "
            "task, pass that module, for example --app app.mail:jobs)"
        )
    if not isinstance(payload, dict):
        return NewJob(type, payload)
    return task.using(**options).job(**task.arguments.decode_call(payload))


def _parse_lines(text: str, store: "Jobs", store_target: StoreTarget, options: Mapping[str, Any]) -> list[NewJob]:
    found: list[NewJob] = []
    # Not `splitlines`: JSON strings may contain other line separators.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        record = parse_json(line, f"line {number}")
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise click.UsageError(f'line {number} is not a job: use {{"type": "send", "payload": {{…}}}}')
        try:
            found.append(_job_from_record(record, store, store_target, options))
            found[-1].record("checked")
        except TenureError as exc:
            raise click.UsageError(f"line {number}: {exc}") from None
    return found


def _job_from_record(
    record: dict[str, Any], store: "Jobs", store_target: StoreTarget, options: Mapping[str, Any]
) -> NewJob:
    from tenure.core import checks

    checks.reject_unknown("a job", record, JOB_FIELDS)
    rest = {name: value for name, value in record.items() if name not in {"type", "payload"}}
    if isinstance(rest.get("run_at"), str):
        try:
            rest["run_at"] = datetime.fromisoformat(rest["run_at"])
        except ValueError:
            raise TenureError(f"invalid run_at {rest['run_at']!r}: use ISO 8601 such as 2026-12-24T18:00Z") from None
    return _new_job(store, store_target, record["type"], record.get("payload", {}), {**options, **rest})


def _parse_label(text: str) -> tuple[str, str]:
    name, equals, content = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"invalid label {text!r}: use --meta name=text")
    return name, content


COMMANDS = {"enqueue": enqueue}
