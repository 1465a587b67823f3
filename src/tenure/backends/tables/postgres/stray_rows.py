"""Find rows left inconsistent by other code or by an earlier program.

The checks are bounded, by number of rows and by time per query.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from psycopg import errors

from tenure.backends.shared.sql_files import raw_statements
from tenure.backends.tables.postgres.admin_connection import AdminConnection
from tenure.backends.tables.postgres.catalogue import PostgresRelation
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.statements import build_statement
from tenure.backends.tables.protocol import STUCK_REMEDY, STUCK_TEXT, Finding, Severity
from tenure.core.job import FINISHED, State
from tenure.core.operations import STUCK_AFTER
from tenure.core.table.spec import Role, quote_identifier

MOST_ROWS = 10_000
"""Maximum number of rows to count per kind, and to check for unknown state values."""
QUERY_TIMEOUT = 3.0
"""Seconds per query."""
MOST_EXAMPLES = 3


class StrayRows:
    """Runs one query for every kind of inconsistent row."""

    def __init__(self, admin: AdminConnection, layout: Layout, output: PostgresRelation | None) -> None:
        self._admin = admin
        self._layout = layout
        self._output = output

    def findings(self) -> Iterator[Finding]:
        yield from self._unknown_state_values()
        yield from self._leftover_leases()
        yield from self._running_unheld()
        yield from self._stuck()
        if self._layout.spec.is_sidecar:
            yield from self._sidecar_rows()
        if self._output is not None:
            yield from self._duplicate_outputs(self._output)

    def _unknown_state_values(self) -> Iterator[Finding]:
        rows = self._query("unknown state values")
        if rows is None:
            yield _not_checked("state values")
            return
        for word, number, checked in rows:
            among = f"{number:,} of {checked:,} rows checked"
            if word is None:
                yield _finding(
                    Severity.WARNING,
                    "states",
                    f"{among} have a null state and are never claimed",
                    self._remedy_statement("repair rows without a state"),
                )
            else:
                yield _finding(
                    Severity.WARNING,
                    "states",
                    f"{among} have {word!r} in {self._column_name(Role.STATE)!r}, which is not a state value: "
                    "tenure does not claim, count or list them",
                    "map the value to a state in states=, or do nothing if tenure should ignore these rows",
                )

    def _leftover_leases(self) -> Iterator[Finding]:
        yield from self._check(
            "queued and held",
            "{} queued with a lease or a token that other code did not clear; claims ignore the leftovers",
            self._remedy_statement("repair queued and held"),
        )
        yield from self._check(
            "finished and leased",
            "{} finished with a lease that other code did not clear; the lease has no effect",
            self._remedy_statement("repair finished and leased"),
        )

    def _running_unheld(self) -> Iterator[Finding]:
        yield from self._check(
            "running without a lease",
            "{} running without a lease, so they never expire",
            "run `migrate(adopt_running_after=600)`, or `tenure migrate … --adopt-running-after 10m`: the rows get a "
            "lease that expires this long after they started",
        )
        yield from self._check(
            "running without a token",
            "{} running with a lease but without a token: adopted by migrate, or claimed by other code",
            "for adopted rows do nothing: tenure reaps them when the lease expires; otherwise make sure that only "
            "tenure claims rows of this table",
            severity=Severity.NOTE,
        )

    def _stuck(self) -> Iterator[Finding]:
        yield from self._check(
            "stuck",
            f"{{}} running with {STUCK_TEXT}",
            STUCK_REMEDY,
        )

    def _sidecar_rows(self) -> Iterator[Finding]:
        yield from self._check(
            "orphans",
            f"{{}} in {self._layout.home_name}, but deleted from {self._layout.table.name}; a new row with such a key "
            "takes over the old state",
            self._remedy_statement("repair orphans"),
            severity=Severity.NOTE,
        )
        yield from self._check(
            "completed and still chosen",
            "{} completed but still matched by where: the work does not make the condition false, so every claim skips "
            "over these rows, and other queries with this condition see them as not done",
            "change a column in where as part of the work, in the same transaction: `claim.transaction()`",
        )

    def _duplicate_outputs(self, output: PostgresRelation) -> Iterator[Finding]:
        rows = self._query("duplicate outputs")
        if rows is None:
            yield _not_checked(f"duplicates of the output in {output.display_name}")
            return
        ((number,),) = rows
        if number:
            yield _finding(
                Severity.ERROR,
                "output",
                f"{output.display_name} has duplicates of {number:,}{'' if number < MOST_ROWS else ' or more'} "
                "output values, so the unique index cannot be created",
                "delete the duplicates, then migrate; this lists them:\n"
                f"{self._remedy_statement('list duplicate outputs')}",
            )

    def _check(
        self, query_name: str, text: str, remedy: str, *, severity: Severity = Severity.WARNING
    ) -> Iterator[Finding]:
        rows = self._query(query_name)
        if rows is None:
            yield _not_checked(f"rows that are {query_name}")
            return
        ((keys,),) = rows
        if keys:
            yield _finding(severity, "rows", text.format(_row_count_text(keys)), remedy)

    def _query(self, query_name: str) -> list[tuple[Any, ...]] | None:
        """Run a query; return None if it times out."""
        text = raw_statements(__package__, "stray_rows")[query_name].format(**self._fragments)
        try:
            with self._admin.connection.transaction():
                self._admin.set_config("statement_timeout", f"{1000 * QUERY_TIMEOUT:.0f}")
                return self._admin.fetch(
                    build_statement(text, is_prepared=False),
                    {"most": MOST_ROWS, "stuck_after": STUCK_AFTER, **param_values(self._layout.spec)},
                )
        except errors.QueryCanceled:
            return None

    @cached_property
    def _fragments(self) -> Mapping[str, str]:
        layout, output, spec = self._layout, self._output, self._layout.spec
        names = [quote_identifier(each.name) for each in layout.key]
        columns = [quote_identifier(each) for each in spec.output.columns] if spec.output is not None else []
        return {
            "home": layout.home,
            "table": layout.table.quoted_name,
            "alias": layout.alias,
            "sidecar": layout.sidecar_alias,
            "key": f"concat_ws(', ', {', '.join(names)})",
            "key_columns": ", ".join(names),
            "same_key": self._same_key,
            "state": quote_identifier(self._column_name(Role.STATE)),
            "token": quote_identifier(self._column_name(Role.TOKEN)),
            "leased_until": quote_identifier(self._column_name(Role.LEASED_UNTIL)),
            "lease_zone": " at time zone 'UTC'" if layout.role_columns[Role.LEASED_UNTIL].is_local else "",
            "state_values": ", ".join(layout.state_literals.values()),
            "finished": ", ".join(layout.state_literals[state] for state in State if state in FINISHED),
            **{state.value: word for state, word in layout.state_literals.items()},
            "where": "true" if spec.where is None else spec.where.render("param"),
            "output": "" if output is None else output.quoted_name,
            "output_columns": ", ".join(columns),
            "output_is_not_null": " and ".join(f"{each} is not null" for each in columns),
        }

    @property
    def _same_key(self) -> str:
        sidecar, alias = self._layout.sidecar_alias, self._layout.alias
        names = [quote_identifier(each.name) for each in self._layout.key]
        return " and ".join(f"{alias}.{name} = {sidecar}.{name}" for name in names)

    def _column_name(self, role: Role) -> str:
        return self._layout.role_columns[role].name

    def _remedy_statement(self, name: str) -> str:
        """Return a statement for the user to run."""
        return raw_statements(__package__, "stray_rows")[name].format(**self._fragments) + ";"


def _row_count_text(keys: Sequence[str]) -> str:
    number = len(keys)
    shown = ", ".join(keys[:MOST_EXAMPLES]) + (", …" if number > MOST_EXAMPLES else "")
    if number == 1:
        return f"1 row ({shown}) is"
    return f"{number:,}{'' if number < MOST_ROWS else ' or more'} rows ({shown}) are"


def _not_checked(what: str) -> Finding:
    return _finding(Severity.NOTE, "rows", f"{what}: not checked, the query took more than {QUERY_TIMEOUT:g} s")


def _finding(severity: Severity, about: str, text: str, remedy: str | None = None) -> Finding:
    return Finding(severity=severity, about=about, text=text, remedy=remedy)
