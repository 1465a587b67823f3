"""Check a table: report problems with their remedies, without changing anything."""

from collections.abc import Iterator

from tenure.backends.postgres.database import Database
from tenure.backends.tables.postgres import ddl, query_plan, server_checks
from tenure.backends.tables.postgres.admin_connection import AdminConnection, open_admin_connection
from tenure.backends.tables.postgres.catalogue import PostgresRelation
from tenure.backends.tables.postgres.column_checks import check_columns
from tenure.backends.tables.postgres.foreign_key import check_foreign_key
from tenure.backends.tables.postgres.functions import build_functions, check_functions
from tenure.backends.tables.postgres.layout import MIGRATE_REMEDY, UNSUPPORTED_KINDS, Layout
from tenure.backends.tables.postgres.migrate import existing_indexes, read_layout, read_output_table
from tenure.backends.tables.postgres.stray_rows import StrayRows
from tenure.backends.tables.protocol import Finding, Severity
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError


def check(database: Database, spec: TableSpec) -> list[Finding]:
    """Return the findings, most severe first."""
    try:
        layout, output = read_layout(database, spec), read_output_table(database, spec)
        found = check_columns(layout)
    except ConfigurationError as exc:
        # A table or column in the description does not exist; no other check can run.
        return [Finding(severity=Severity.ERROR, about="table", text=str(exc))]
    with open_admin_connection(database) as admin, database.connector.applied_settings(admin.connection):
        found += _findings(admin, layout, output)
    severities = list(Severity)
    return sorted(found, key=lambda each: severities.index(each.severity))


def _findings(admin: AdminConnection, layout: Layout, output: PostgresRelation | None) -> Iterator[Finding]:
    if layout.table.kind in UNSUPPORTED_KINDS:
        return
    yield from server_checks.check_key_columns(layout)
    missing_rights = list(server_checks.check_rights(admin, layout))
    yield from missing_rights
    for relation in (layout.table, layout.catalogue.sidecar):
        if relation is not None:
            yield from server_checks.check_row_security(admin, relation)
            yield from server_checks.check_bloat(admin, relation)
    yield from server_checks.check_triggers(admin, layout)
    yield from server_checks.check_state_values(admin, layout)
    yield from check_foreign_key(layout)
    yield from _check_indexes(admin, layout, output)
    if missing_rights or any(each.severity is Severity.ERROR for each in check_columns(layout)):
        # The remaining checks would fail.
        return
    wrong = list(server_checks.check_conditions(admin, layout))
    yield from wrong
    if not wrong:
        yield from check_functions(admin, build_functions(admin, layout))
        yield from query_plan.check_claim_plan(admin, layout)
        yield from StrayRows(admin, layout, output).findings()


def _check_indexes(admin: AdminConnection, layout: Layout, output: PostgresRelation | None) -> Iterator[Finding]:
    present = existing_indexes(admin, layout, output)
    for index in ddl.required_indexes(layout, output):
        if index.name in present.invalid:
            yield _index_finding(index, "is invalid: its build was interrupted")
        elif index.name not in present.valid:
            yield _index_finding(index, "does not exist")


def _index_finding(index: ddl.IndexSpec, problem: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        about=f"index {index.purpose}",
        text=f"the index for {INDEX_PURPOSES[index.purpose]} {problem}",
        remedy=f"{MIGRATE_REMEDY}{index.create_statement};",
    )


INDEX_PURPOSES = {
    "claim": "claiming rows in order",
    "failed": "finding failed rows",
    "leases": "finding expired leases",
    "tokens": "finding the claims of a repeated request",
    "found_done": "counting recovered and prevented rows",
    "output": "the output (unique, so that no row is processed twice)",
}
