"""`tenure enqueue`."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.output import Output, with_output
from tenure.cli.param_types import duration, json_of, moment, text_of
from tenure.cli.store_options import Place, with_place
from tenure.core.job import NewJob
from tenure.core.operations import MOST_ENQUEUED
from tenure.errors import TenureError, UnknownTask

if TYPE_CHECKING:
    from tenure.client.jobs import Jobs

FIELDS = [name for name in NewJob.__annotations__ if name != "_"]


ANY_NUMBER = 0


def attempts(value: str) -> int:
    """Return a number of attempts; `ANY_NUMBER` for none."""
    if value == "none":
        return ANY_NUMBER
    if not value.isdecimal() or int(value) == 0:
        raise click.BadParameter(f"{value!r} is no number of attempts; write one, or none for any number")
    return int(value)


@click.command(short_help="Store jobs.")
@click.argument("type", required=False)
@click.argument("payload", required=False)
@click.option("--lines", metavar="FILE", help="Store a job for each JSON line of a file; - is the standard input.")
@click.option("--queue", "-q", metavar="NAME", help="The queue; default: default.")
@click.option("--priority", type=int, metavar="N", help="Higher is taken first; default 0.")
@click.option("--delay", type=duration, help="Due so long from now: 30s, 10m, 2h.")
@click.option("--at", "run_at", type=moment, help="Due at this moment: 2026-12-24T18:00Z.")
@click.option("--key", metavar="KEY", help="At most one live job of the queue has it.")
@click.option("--on-conflict", type=click.Choice(["keep", "raise"]), help="If one has it: print its id, or exit 1.")
@click.option("--max-attempts", type=attempts, metavar="N", help="Default 5; none for any number.")
@click.option("--max-crashes", type=int, metavar="N", help="Default 3.")
@click.option("--timeout", type=duration, help="How long a run may take.")
@click.option("--meta", multiple=True, metavar="NAME=TEXT", help="A label; may be given several times.")
@click.option("--id", metavar="ID", help="The same id is the same job, and stored once.")
@with_place
@with_output
def enqueue(
    place: Place, output: Output, type: str | None, payload: str | None, lines: str | None, **options: Any
) -> None:
    """Store a job, and print its id.

    PAYLOAD is a JSON object; - reads it from the standard input, @FILE from a file. With --app the type has to be a
    task of your Jobs, the payload has to have its parameters, and its own options hold where you give none.

    \b
    Examples:
      tenure enqueue send '{"message_id": 7, "to": "ada@example.org"}'
      tenure enqueue report --queue slow --delay 10m --key daily
      tenure enqueue send @message.json --app app:jobs
      jq -c '{type: "send", payload: .}' messages | tenure enqueue --lines -
    """
    if (type is None) == (lines is None):
        raise click.UsageError("name a type, such as `tenure enqueue send '{}'`, or give --lines FILE")
    given = {name: value for name, value in options.items() if value not in {None, ()}}
    if "meta" in given:
        given["meta"] = dict(_label(each) for each in given["meta"])
    if given.get("max_attempts") == ANY_NUMBER:
        given["max_attempts"] = None
    with place.jobs(may_create=True) as store:
        if lines is None:
            content = {} if payload is None else json_of(text_of(payload, "the payload"), "the payload")
            new = [_job(store, place, str(type), content, given)]
        else:
            new = _jobs_of(text_of(lines if lines == "-" else f"@{lines}", "the input"), store, place, given)
        for job in new:
            # All are looked at before any is stored.
            job.entry("checked")
        for start in range(0, len(new), MOST_ENQUEUED):
            part = new[start : start + MOST_ENQUEUED]
            try:
                ids = store.enqueue_many(part)
            except TenureError as exc:
                exc.add_note(f"{start:,} of {len(new):,} jobs are stored" if start else "nothing was stored")
                raise
            for job, id in zip(part, ids, strict=True):
                if output.is_json:
                    output.record({"id": id, "type": job.type, "queue": job.queue})
                output.say(id)


def _job(store: "Jobs", place: Place, type: str, payload: Any, options: Mapping[str, Any]) -> NewJob:
    if place.app is None:
        return NewJob(type, payload, **options)
    if (task := store.tasks.get(type)) is None:
        from tenure.core.checks import nearest

        raise UnknownTask(
            f"{place.app} has no task {type!r}{nearest(type, store.tasks)}; name a module that imports it, such as "
            "--app app.mail:jobs"
        )
    if not isinstance(payload, dict):
        return NewJob(type, payload)
    return task.using(**options).job(**task.arguments.named(payload))


def _jobs_of(text: str, store: "Jobs", place: Place, options: Mapping[str, Any]) -> list[NewJob]:
    found: list[NewJob] = []
    # Not `splitlines`: JSON may have other line separators within its strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        record = json_of(line, f"line {number}")
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise click.UsageError(f'line {number} is no job; write {{"type": "send", "payload": {{…}}}}')
        try:
            found.append(_of_record(record, store, place, options))
            found[-1].entry("checked")
        except TenureError as exc:
            raise click.UsageError(f"line {number}: {exc}") from None
    return found


def _of_record(record: dict[str, Any], store: "Jobs", place: Place, options: Mapping[str, Any]) -> NewJob:
    from tenure.core import checks

    checks.refuse_unknown("a job", record, FIELDS)
    rest = {name: value for name, value in record.items() if name not in {"type", "payload"}}
    if isinstance(rest.get("run_at"), str):
        try:
            rest["run_at"] = datetime.fromisoformat(rest["run_at"])
        except ValueError:
            raise TenureError(f"run_at is no moment: {rest['run_at']!r}") from None
    return _job(store, place, record["type"], record.get("payload", {}), {**options, **rest})


def _label(text: str) -> tuple[str, str]:
    name, equals, content = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{text!r} is no label; write --meta name=text")
    return name, content


COMMANDS = {"enqueue": enqueue}
