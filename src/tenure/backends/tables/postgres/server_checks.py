"""Server-side checks of a table: rights, row-level security, triggers, and constraints on the state column."""

from collections.abc import Iterator

import psycopg

from tenure.backends.tables.postgres.admin_connection import AdminConnection, load_statements
from tenure.backends.tables.postgres.catalogue import PostgresRelation
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.statements import build_statement
from tenure.backends.tables.protocol import Finding, Severity
from tenure.core.table.spec import USER_TABLE_ROLES, Role, quote_identifier

BLOAT_THRESHOLD = 50_000
"""Report bloat above this number of dead row versions, if there are also more of them than rows."""


def check_rights(admin: AdminConnection, layout: Layout) -> Iterator[Finding]:
    """Report rights that the current role lacks."""
    table, sidecar = layout.table, layout.catalogue.sidecar
    written = [part.name for role, part in layout.role_columns.items() if role not in USER_TABLE_ROLES]
    cleared = [each.name for each in layout.on_retry]
    if sidecar is None:
        read = {
            each.name for each in (*layout.columns, *(part.column for part in layout.role_columns.values())) if each
        }
        yield from _check_table_rights(admin, table, read_columns=read, updated_columns={*written, *cleared})
        return
    # A claim locks the row, and PostgreSQL lets a role lock rows only if the role may update some column.
    yield from _check_table_rights(
        admin,
        table,
        read_columns={each.name for each in table.columns},
        updated_columns=set(cleared),
        needs_any_update=not cleared,
    )
    columns = {each.name for each in sidecar.columns}
    yield from _check_table_rights(
        admin, sidecar, read_columns=columns, updated_columns=set(written), needs_insert=True
    )


def check_row_security(admin: AdminConnection, relation: PostgresRelation) -> Iterator[Finding]:
    """Report that row-level security filters the rows for the current role."""
    if not relation.is_row_security_active:
        return
    names = [name for (name,) in admin.fetch(load_statements("server_checks")["policies"], {"oid": relation.oid})]
    effect = f"the policies {', '.join(names)} filter" if names else "without a policy, PostgreSQL hides"
    (role,) = admin.fetch(CURRENT_ROLE)[0]
    yield _finding(
        Severity.WARNING if names else Severity.ERROR,
        "row-level security",
        f"row-level security of {relation.display_name} applies to role {role!r}: {effect} the rows to claim, and a "
        "worker may claim a row that it cannot complete",
        f"use a role that bypasses row-level security for the worker, or add a policy for all commands:\n"
        f"create policy tenure on {relation.quoted_name} to {quote_identifier(role)} using (true) with check (true);",
    )


def check_triggers(admin: AdminConnection, layout: Layout) -> Iterator[Finding]:
    """Report triggers and rules that run on every claim, extension and settlement of a row."""
    if layout.spec.is_sidecar:
        return
    role_columns = {part.name for part in layout.role_columns.values()}
    for name, is_before, columns in admin.fetch(
        load_statements("server_checks")["triggers"], {"oid": layout.table.oid}
    ):
        if columns and role_columns.isdisjoint(columns):
            continue
        which = f" of {', '.join(columns)}" if columns else ""
        yield _finding(
            Severity.WARNING if is_before else Severity.NOTE,
            f"trigger {name}",
            f"trigger {name!r} runs {'before' if is_before else 'after'} each update{which}: on every claim, extension "
            "and settlement of a row" + ("; a before trigger can change or reject the update" if is_before else ""),
            "make sure that the trigger is fast and does not change the columns used by tenure, or limit it to the "
            "columns that it needs: `update of …`",
        )
    for (name,) in admin.fetch(load_statements("server_checks")["rules"], {"oid": layout.table.oid}):
        yield _finding(
            Severity.ERROR,
            f"rule {name}",
            f"rule {name!r} rewrites every update of the table, and so every claim",
            f"drop rule {quote_identifier(name)} on {layout.table.quoted_name};",
        )


def check_state_values(admin: AdminConnection, layout: Layout) -> Iterator[Finding]:
    """Report constraints and domains that reject the value for a state."""
    column = layout.role_columns[Role.STATE].column
    if column is None or layout.spec.is_sidecar:
        return
    checks = admin.fetch(load_statements("server_checks")["checks"], {"oid": layout.table.oid, "column": column.name})
    name = quote_identifier(column.name)
    known = {
        state: word
        for state, word in layout.state_literals.items()
        if not column.labels or layout.spec.state_values[state] in column.labels
    }
    for constraint, expression in checks:
        rejected = [
            state
            for state, word in known.items()
            if _is_false(admin, f"select {expression} from (select {word} as {name}) {layout.alias}")  # noqa: S608
        ]
        if rejected:
            rejected_values = ", ".join(f"{layout.spec.state_values[state]!r} (state {state})" for state in rejected)
            yield _finding(
                Severity.ERROR,
                f"constraint {constraint}",
                f"constraint {constraint!r} rejects {rejected_values}: {expression}",
                f"alter table {layout.table.quoted_name} drop constraint {quote_identifier(constraint)};\n"
                f"alter table {layout.table.quoted_name} add constraint {quote_identifier(constraint)} check (\n"
                f"  ({expression}) or {name} in ({', '.join(known[state] for state in rejected)})\n) not valid;",
            )
    for state, word in known.items():
        if column.type != column.base and _is_false(admin, f"select cast({word} as {column.type}) is not null"):
            yield _finding(
                Severity.ERROR,
                f"column {column.name}",
                f"type {column.type} rejects {layout.spec.state_values[state]!r} (state {state})",
                "pass another value for the state in states=, or change the type to allow the value",
            )


def check_conditions(admin: AdminConnection, layout: Layout) -> Iterator[Finding]:
    """Report conditions that the server rejects, with the values from `params`."""
    for option, condition in {"where": layout.spec.where, "done_if": layout.spec.done_if}.items():
        if condition is None:
            continue
        query = f"select from {layout.table.quoted_name} {layout.alias} where ({condition.render('param')}) limit 0"
        try:
            with admin.connection.transaction():
                admin.fetch(build_statement(query, is_prepared=False), param_values(layout.spec))
        except (psycopg.ProgrammingError, psycopg.DataError) as exc:
            reason = str(exc).partition("\n")[0]
            yield _finding(
                Severity.ERROR, option, f"invalid {option}: {reason}", f"correct the condition: {condition.text}"
            )


def check_key_columns(layout: Layout) -> Iterator[Finding]:
    """Report nullable key columns."""
    for column in layout.key:
        if column.is_nullable:
            yield _finding(
                Severity.WARNING,
                f"column {column.name}",
                f"key column {column.name!r} is nullable; tenure neither claims nor reaps a row whose key is null",
                f"alter table {layout.table.quoted_name} alter column {quote_identifier(column.name)} set not null;",
            )


def check_bloat(admin: AdminConnection, relation: PostgresRelation) -> Iterator[Finding]:
    """Report that vacuum does not keep up."""
    for alive, dead in admin.fetch(load_statements("server_checks")["size"], {"oid": relation.oid}):
        if dead > max(BLOAT_THRESHOLD, alive):
            yield _finding(
                Severity.NOTE,
                "vacuum",
                f"{relation.display_name} has about {dead:,} dead row versions and {alive:,.0f} rows, which slows "
                "claims down",
                f"vacuum {relation.quoted_name};",
            )


def estimate_rows(admin: AdminConnection, relation: PostgresRelation) -> float:
    """Return the estimated number of rows of a table."""
    ((alive, _),) = admin.fetch(load_statements("server_checks")["size"], {"oid": relation.oid})
    return float(alive)


def _check_table_rights(
    admin: AdminConnection,
    relation: PostgresRelation,
    *,
    read_columns: set[str],
    updated_columns: set[str],
    needs_any_update: bool = False,
    needs_insert: bool = False,
) -> Iterator[Finding]:
    ((role, has_schema, may_insert, may_update_any, unread, unwritten),) = admin.fetch(
        load_statements("server_checks")["rights"], {"oid": relation.oid}
    )
    to = quote_identifier(role)
    if not has_schema:
        remedy = f"grant usage on schema {quote_identifier(relation.schema)} to {to};"
        yield _finding(Severity.ERROR, "rights", f"role {role!r} lacks USAGE on schema {relation.schema!r}", remedy)
    lacked = [each for each in unread if each in read_columns]
    if lacked:
        yield _missing_right(role, relation, "read", lacked, f"grant select on {relation.quoted_name} to {to};")
    lacked = [each for each in unwritten if each in updated_columns]
    if lacked:
        names = ", ".join(quote_identifier(each) for each in lacked)
        yield _missing_right(
            role, relation, "update", lacked, f"grant update ({names}) on {relation.quoted_name} to {to};"
        )
    if needs_any_update and not may_update_any:
        name = quote_identifier(relation.columns[0].name)
        yield _finding(
            Severity.ERROR,
            "rights",
            f"role {role!r} may not update any column of {relation.display_name}, so a claim cannot lock a row",
            f"grant update ({name}) on {relation.quoted_name} to {to};",
        )
    if needs_insert and not may_insert:
        remedy = f"grant insert on {relation.quoted_name} to {to};"
        yield _finding(Severity.ERROR, "rights", f"role {role!r} may not insert into {relation.display_name}", remedy)


def _missing_right(role: str, relation: PostgresRelation, verb: str, columns: list[str], remedy: str) -> Finding:
    which = "column" if len(columns) == 1 else "columns"
    text = f"role {role!r} may not {verb} {which} {', '.join(columns)} of {relation.display_name}"
    return _finding(Severity.ERROR, "rights", text, remedy)


def _is_false(admin: AdminConnection, query: str) -> bool:
    """Return whether the query returns false, or fails because the value violates a constraint."""
    try:
        with admin.connection.transaction():
            ((result,),) = admin.fetch(build_statement(query, is_prepared=False))
    except (psycopg.errors.IntegrityError, psycopg.errors.DataError):
        return True
    return result is False


def _finding(severity: Severity, about: str, text: str, remedy: str | None = None) -> Finding:
    return Finding(severity=severity, about=about, text=text, remedy=remedy)


CURRENT_ROLE = build_statement("select cast(current_user as text)", is_prepared=False)
