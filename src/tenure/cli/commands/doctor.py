"""`tenure doctor`."""

import textwrap
from collections import Counter
from collections.abc import Sequence

import click

from tenure.backends.tables.protocol import Finding, Severity
from tenure.cli.exit_codes import ExitCode
from tenure.cli.json_output import to_record
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import target as target_type
from tenure.cli.store_options import StoreTarget
from tenure.cli.targets import table_of

WIDTH = 80
STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


@click.command(short_help="Check a Table or a store for problems.")
@click.argument("targets", required=True, nargs=-1, metavar="MODULE:OBJECT...", type=target_type)
@click.option("--strict", is_flag=True, help="Exit with 1 also for warnings.")
@with_output
def doctor(output: CommandOutput, targets: Sequence[str], *, strict: bool) -> int:
    """Check a Table in its database, and print each problem with its remedy. Nothing is changed.

    The checks cover columns and their types, indexes, privileges, row-level security, triggers, unmapped states,
    incomplete leases, and rows that no worker would ever take over. For a Jobs, the checks are whether the store
    responds, and whether its schema is up to date.

    \b
    The exit code is 1 if there is an error: rows cannot be claimed.
    Warnings do not change the exit code, unless --strict is set.

    \b
    Examples:
      tenure doctor app:orders
      tenure doctor app:orders app:files --strict
      tenure doctor app:orders --json
    """
    severities = Counter[Severity]()
    for target in targets:
        findings = _check(StoreTarget(url=None, app=target))
        severities.update(each.severity for each in findings)
        if output.is_json:
            for finding in findings:
                output.print_record({"target": target, **to_record(finding)})
            continue
        output.print_text(f"{target}: {_format_counts(findings)}", "bold")
        for finding in findings:
            _print_finding(output, finding)
    has_problems = severities[Severity.ERROR] or (strict and severities[Severity.WARNING])
    return ExitCode.FAILED if has_problems else ExitCode.DONE


def _check(store_target: StoreTarget) -> list[Finding]:
    table = table_of(store_target)
    if table is None:
        return _check_store(store_target)
    with table:
        return table.check()


def _check_store(store_target: StoreTarget) -> list[Finding]:
    from tenure.backends.urls import POSTGRES_SCHEMES, mask_password, migration_sql, scheme_of

    url = store_target.url_of(store_target.unchecked_jobs())
    if url is not None and scheme_of(url) in POSTGRES_SCHEMES and migration_sql(url):
        return [
            Finding(
                severity=Severity.WARNING,
                about="schema",
                text=f"the store {mask_password(url)!r} responds, but its schema is outdated",
                remedy=f"run `tenure migrate {store_target.app}`; "
                "opening the store with sufficient privileges does so too",
            )
        ]
    with store_target.jobs() as store:
        store.stats()
        schema = store.migrate()
    return [Finding(severity=Severity.NOTE, about="store", text=f"the store responds; schema version {schema.now}")]


def _format_counts(findings: Sequence[Finding]) -> str:
    number = Counter(each.severity for each in findings)
    counts = [f"{number[each]} {each}{'s' if number[each] > 1 else ''}" for each in Severity if number[each]]
    return ", ".join(counts) or "no problems found"


def _print_finding(output: CommandOutput, finding: Finding) -> None:
    output.print_text(f"\n{finding.severity}: {finding.about}", STYLES[finding.severity])
    output.print_text(_wrap(finding.text, "  "))
    if finding.remedy is not None:
        output.print_text(_wrap(finding.remedy, "    "))


def _wrap(text: str, indent: str) -> str:
    """Wrap a sentence to the width. Keep the lines of SQL."""
    if text.rstrip().endswith(";") or "\n" in text:
        return textwrap.indent(text.rstrip(), indent)
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


COMMANDS = {"doctor": doctor}
