"""Whether the server lets us use a table: rights, row-level security, triggers, and what refuses our words."""

from collections.abc import Iterator

import psycopg

from tenure.backends.tables.postgres.admin_connection import Hand, named
from tenure.backends.tables.postgres.catalogue import Relation
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.statements import numbered
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.core.table.spec import READ_BESIDE, Role, quoted

MANY_DEAD = 50_000
"""Versions of rows that nobody sees; as many again as there are rows are worth a word."""


def rights(hand: Hand, layout: Layout) -> Iterator[Finding]:
    """Tell what this role may not do, and has to."""
    table, companion = layout.table, layout.catalogue.companion
    written = [part.name for role, part in layout.parts.items() if role not in READ_BESIDE]
    cleared = [each.name for each in layout.on_retry]
    if companion is None:
        read = {each.name for each in (*layout.columns, *(part.column for part in layout.parts.values())) if each}
        yield from _lacking(hand, table, read=read, written={*written, *cleared})
        return
    # A row is locked while it is taken, and who may update nothing may lock nothing.
    yield from _lacking(
        hand, table, read={each.name for each in table.columns}, written=set(cleared), is_any_written=not cleared
    )
    columns = {each.name for each in companion.columns}
    yield from _lacking(hand, companion, read=columns, written=set(written), is_inserted=True)


def row_security(hand: Hand, relation: Relation) -> Iterator[Finding]:
    """Tell that policies choose among the rows for this role."""
    if not relation.is_row_security_active:
        return
    names = [name for (name,) in hand.rows(named("fitness")["policies"], {"oid": relation.oid})]
    told = f"its policies, {', '.join(names)}, choose" if names else "without a policy it hides"
    (role,) = hand.rows(ROLE)[0]
    yield _found(
        Gravity.WARNING if names else Gravity.ERROR,
        "row-level security",
        f"row-level security holds for the role {role!r} in {relation.shown}: {told} the rows that can be claimed, and "
        "a row may be claimed that cannot be completed",
        f"give the worker a role that it does not hold for, or a policy for all commands:\n"
        f"create policy tenure on {relation.place} to {quoted(role)} using (true) with check (true);",
    )


def triggers(hand: Hand, layout: Layout) -> Iterator[Finding]:
    """Tell what else happens whenever a row is claimed, prolonged or ended."""
    if layout.spec.is_sidecar:
        return
    ours = {part.name for part in layout.parts.values()}
    for name, is_before, columns in hand.rows(named("fitness")["triggers"], {"oid": layout.table.oid}):
        if columns and ours.isdisjoint(columns):
            continue
        which = f" of {', '.join(columns)}" if columns else ""
        yield _found(
            Gravity.WARNING if is_before else Gravity.NOTE,
            f"trigger {name}",
            f"the trigger {name!r} fires {'before' if is_before else 'after'} each update{which}: at every claim, "
            "extension and ending of a row" + ("; it may change or refuse what is written" if is_before else ""),
            "see that it leaves the columns of the roles alone, and costs little; or name the columns that it is for: "
            "`update of …`",
        )
    for (name,) in hand.rows(named("fitness")["rules"], {"oid": layout.table.oid}):
        yield _found(
            Gravity.ERROR,
            f"rule {name}",
            f"the rule {name!r} rewrites updates of the table, and with them every claim",
            f"drop rule {quoted(name)} on {layout.table.place};",
        )


def words(hand: Hand, layout: Layout) -> Iterator[Finding]:
    """Tell which constraints refuse a word for a state."""
    column = layout.parts[Role.STATE].column
    if column is None or layout.spec.is_sidecar:
        return
    checks = hand.rows(named("fitness")["checks"], {"oid": layout.table.oid, "column": column.name})
    name = quoted(column.name)
    known = {
        state: word
        for state, word in layout.words.items()
        if not column.labels or layout.spec.words[state] in column.labels
    }
    for constraint, expression in checks:
        refused = [
            state
            for state, word in known.items()
            if _is_false(hand, f"select {expression} from (select {word} as {name}) {layout.alias}")  # noqa: S608
        ]
        if refused:
            told = ", ".join(f"{layout.spec.words[state]!r}, the word for {state}" for state in refused)
            yield _found(
                Gravity.ERROR,
                f"constraint {constraint}",
                f"the constraint {constraint!r} refuses {told}: {expression}",
                f"alter table {layout.table.place} drop constraint {quoted(constraint)};\n"
                f"alter table {layout.table.place} add constraint {quoted(constraint)} check (\n"
                f"  ({expression}) or {name} in ({', '.join(known[state] for state in refused)})\n) not valid;",
            )
    for state, word in known.items():
        if column.type != column.base and _is_false(hand, f"select cast({word} as {column.type}) is not null"):
            yield _found(
                Gravity.ERROR,
                f"column {column.name}",
                f"the type {column.type} refuses {layout.spec.words[state]!r}, the word for {state}",
                "name another word in states, or let the type take it",
            )


def conditions(hand: Hand, layout: Layout) -> Iterator[Finding]:
    """Tell which condition of the user's the server does not understand, or not with these values."""
    for option, condition in {"where": layout.spec.where, "done_if": layout.spec.done_if}.items():
        if condition is None:
            continue
        question = f"select from {layout.table.place} {layout.alias} where ({condition.written('param')}) limit 0"
        try:
            with hand.connection.transaction():
                hand.rows(numbered(question, is_prepared=False), param_values(layout.spec))
        except (psycopg.ProgrammingError, psycopg.DataError) as exc:
            reason = str(exc).partition("\n")[0]
            yield _found(Gravity.ERROR, option, f"{option} cannot be used: {reason}", f"correct it: {condition.text}")


def key_columns(layout: Layout) -> Iterator[Finding]:
    """Tell of keys that rows may lack."""
    for column in layout.key:
        if column.is_nullable:
            yield _found(
                Gravity.WARNING,
                f"column {column.name}",
                f"the key {column.name!r} may be null, and a row without a key is never claimed",
                f"alter table {layout.table.place} alter column {quoted(column.name)} set not null;",
            )


def bloat(hand: Hand, relation: Relation) -> Iterator[Finding]:
    """Tell that the server does not keep up with removing old versions of rows."""
    for alive, dead in hand.rows(named("fitness")["size"], {"oid": relation.oid}):
        if dead > max(MANY_DEAD, alive):
            yield _found(
                Gravity.NOTE,
                "vacuum",
                f"{relation.shown} has about {dead:,} dead versions of rows and {alive:,.0f} rows; claims slow down",
                f"vacuum {relation.place};",
            )


def rows_of(hand: Hand, relation: Relation) -> float:
    """Return about how many rows a table has."""
    ((alive, _),) = hand.rows(named("fitness")["size"], {"oid": relation.oid})
    return float(alive)


def _lacking(
    hand: Hand,
    relation: Relation,
    *,
    read: set[str],
    written: set[str],
    is_any_written: bool = False,
    is_inserted: bool = False,
) -> Iterator[Finding]:
    ((role, has_schema, may_insert, may_update_any, unread, unwritten),) = hand.rows(
        named("fitness")["rights"], {"oid": relation.oid}
    )
    to = quoted(role)
    if not has_schema:
        remedy = f"grant usage on schema {quoted(relation.schema)} to {to};"
        yield _found(Gravity.ERROR, "rights", f"the role {role!r} may not use the schema {relation.schema!r}", remedy)
    lacked = [each for each in unread if each in read]
    if lacked:
        yield _right(role, relation, "read", lacked, f"grant select on {relation.place} to {to};")
    lacked = [each for each in unwritten if each in written]
    if lacked:
        names = ", ".join(quoted(each) for each in lacked)
        yield _right(role, relation, "update", lacked, f"grant update ({names}) on {relation.place} to {to};")
    if is_any_written and not may_update_any:
        name = quoted(relation.columns[0].name)
        yield _found(
            Gravity.ERROR,
            "rights",
            f"the role {role!r} may update no column of {relation.shown}, and so cannot lock a row while it is taken",
            f"grant update ({name}) on {relation.place} to {to};",
        )
    if is_inserted and not may_insert:
        remedy = f"grant insert on {relation.place} to {to};"
        yield _found(Gravity.ERROR, "rights", f"the role {role!r} may not insert into {relation.shown}", remedy)


def _right(role: str, relation: Relation, verb: str, columns: list[str], remedy: str) -> Finding:
    which = "column" if len(columns) == 1 else "columns"
    text = f"the role {role!r} may not {verb} the {which} {', '.join(columns)} of {relation.shown}"
    return _found(Gravity.ERROR, "rights", text, remedy)


def _is_false(hand: Hand, question: str) -> bool:
    """Tell whether the answer is no, or the server refuses to give one for what was asked."""
    try:
        with hand.connection.transaction():
            ((answer,),) = hand.rows(numbered(question, is_prepared=False))
    except (psycopg.errors.IntegrityError, psycopg.errors.DataError):
        return True
    return answer is False


def _found(gravity: Gravity, about: str, text: str, remedy: str | None = None) -> Finding:
    return Finding(gravity=gravity, about=about, text=text, remedy=remedy)


ROLE = numbered("select cast(current_user as text)", is_prepared=False)
