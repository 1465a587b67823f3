"""`tenure doctor`."""

import textwrap
from collections import Counter
from collections.abc import Sequence

import click

from tenure.backends.tables.protocol import Finding, Gravity
from tenure.cli.exit_codes import Code
from tenure.cli.json_output import record_of
from tenure.cli.output import Output, with_output
from tenure.cli.param_types import target as target_type
from tenure.cli.store_options import Place
from tenure.cli.targets import table_of

WIDTH = 80
STYLES = {Gravity.ERROR: "red", Gravity.WARNING: "yellow", Gravity.NOTE: "dim"}


@click.command(short_help="Say what is wrong with a table, and what to do.")
@click.argument("targets", required=True, nargs=-1, metavar="MODULE:OBJECT...", type=target_type)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings as well.")
@with_output
def doctor(output: Output, targets: Sequence[str], *, strict: bool) -> int:
    """Look at your Table as the database has it, and say what is wrong, each with its remedy. Nothing is changed.

    Columns and their types, indexes, rights, row-level security, triggers, words of the state that are not in the map,
    leases that are half cleared, rows that nobody would ever take back. Of a Jobs: whether its store answers, and
    whether its schema is up to date.

    \b
    The exit code is 1 if there is an error, which keeps rows from being
    claimed; warnings are for you to judge.

    \b
    Examples:
      tenure doctor app:orders
      tenure doctor app:orders app:files --strict
      tenure doctor app:orders --json
    """
    gravest = Counter[Gravity]()
    for target in targets:
        findings = _examined(Place(url=None, app=target))
        gravest.update(each.gravity for each in findings)
        if output.is_json:
            for finding in findings:
                output.record({"target": target, **record_of(finding)})
            continue
        output.say(f"{target}: {_counted(findings)}", "bold")
        for finding in findings:
            _show(output, finding)
    is_ill = gravest[Gravity.ERROR] or (strict and gravest[Gravity.WARNING])
    return Code.FAILED if is_ill else Code.DONE


def _examined(place: Place) -> list[Finding]:
    table = table_of(place)
    if table is None:
        return _store_examined(place)
    with table:
        return table.examine()


def _store_examined(place: Place) -> list[Finding]:
    from tenure.backends.urls import POSTGRES, masked, migration_of, scheme_of

    url = place.url_of(place.named_jobs())
    if url is not None and scheme_of(url) in POSTGRES and migration_of(url):
        return [
            Finding(
                gravity=Gravity.WARNING,
                about="schema",
                text=f"the store {masked(url)!r} answers, and its schema is not up to date",
                remedy=f"run `tenure migrate {place.app}`; whoever opens the store does so too, if he may",
            )
        ]
    with place.jobs() as store:
        store.stats()
        schema = store.migrate()
    return [Finding(gravity=Gravity.NOTE, about="store", text=f"it answers, and has schema {schema.now}")]


def _counted(findings: Sequence[Finding]) -> str:
    number = Counter(each.gravity for each in findings)
    told = [f"{number[each]} {each}{'s' if number[each] > 1 else ''}" for each in Gravity if number[each]]
    return ", ".join(told) or "nothing is wrong"


def _show(output: Output, finding: Finding) -> None:
    output.say(f"\n{finding.gravity}: {finding.about}", STYLES[finding.gravity])
    output.say(_wrapped(finding.text, "  "))
    if finding.remedy is not None:
        output.say(_wrapped(finding.remedy, "    "))


def _wrapped(text: str, indent: str) -> str:
    """Return a sentence within the width; of statements the lines stay as they are."""
    if text.rstrip().endswith(";") or "\n" in text:
        return textwrap.indent(text.rstrip(), indent)
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


COMMANDS = {"doctor": doctor}
