"""What is wrong with a table, or remarkable about it, and what to do: nothing is changed."""

from collections.abc import Iterator

from tenure.backends.postgres.database import Database
from tenure.backends.tables.postgres import ddl
from tenure.backends.tables.postgres import query_plan as plan
from tenure.backends.tables.postgres import server_checks as fitness
from tenure.backends.tables.postgres.admin_connection import Hand, hand_on
from tenure.backends.tables.postgres.catalogue import Relation
from tenure.backends.tables.postgres.column_checks import findings_of
from tenure.backends.tables.postgres.functions import functions_examined, functions_of
from tenure.backends.tables.postgres.layout import BY_MIGRATE, NO_TABLES, Layout
from tenure.backends.tables.postgres.migrate import layout_of, output_of, present_on
from tenure.backends.tables.postgres.stray_rows import StrayRows
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError


def examine(database: Database, spec: TableSpec) -> list[Finding]:
    """Return the findings, the gravest first."""
    try:
        layout, output = layout_of(database, spec), output_of(database, spec)
        found = findings_of(layout)
    except ConfigurationError as exc:
        # What was named is not there; of the rest nothing can be told.
        return [Finding(gravity=Gravity.ERROR, about="table", text=str(exc))]
    with hand_on(database) as hand, database.sessions.are_set(hand.connection):
        found += _findings(hand, layout, output)
    gravities = list(Gravity)
    return sorted(found, key=lambda each: gravities.index(each.gravity))


def _findings(hand: Hand, layout: Layout, output: Relation | None) -> Iterator[Finding]:
    if layout.table.kind in NO_TABLES:
        return
    yield from fitness.key_columns(layout)
    lacking = list(fitness.rights(hand, layout))
    yield from lacking
    for relation in (layout.table, layout.catalogue.companion):
        if relation is not None:
            yield from fitness.row_security(hand, relation)
            yield from fitness.bloat(hand, relation)
    yield from fitness.triggers(hand, layout)
    yield from fitness.words(hand, layout)
    yield from _indexes(hand, layout, output)
    if lacking or any(each.gravity is Gravity.ERROR for each in findings_of(layout)):
        # The questions that follow could not be asked.
        return
    wrong = list(fitness.conditions(hand, layout))
    yield from wrong
    if not wrong:
        yield from functions_examined(hand, functions_of(hand, layout))
        yield from plan.walking(hand, layout)
        yield from StrayRows(hand, layout, output).findings()


def _indexes(hand: Hand, layout: Layout, output: Relation | None) -> Iterator[Finding]:
    present = present_on(hand, layout, output)
    for index in ddl.indexes(layout, output):
        if index.name in present.broken:
            yield _index(index, "was left broken by a build that was interrupted")
        elif index.name not in present.sound:
            yield _index(index, "is not there")


def _index(index: ddl.Index, what: str) -> Finding:
    return Finding(
        gravity=Gravity.WARNING,
        about=f"index {index.what}",
        text=f"the index for {PURPOSES[index.what]} {what}",
        remedy=f"{BY_MIGRATE}{index.made};",
    )


PURPOSES = {
    "claim": "the claim, in its order,",
    "failed": "finding failed rows",
    "leases": "leases that ran out",
    "tokens": "what a request that is sent again holds",
    "found_done": "counting what was recovered and prevented",
    "output": "the output, by which no row is done twice,",
}
