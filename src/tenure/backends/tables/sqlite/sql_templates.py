"""Fill the `.sql` templates with the names of a table.

All names are quoted. A user's condition sees only the user's table, under the name of the table: in a join with the
sidecar table, the condition is wrapped in a subselect.
"""

import sqlite3
from functools import cache

from tenure.backends.shared.sql_files import raw_statements
from tenure.backends.sqlite.busy_retry import primary_code
from tenure.backends.sqlite.timestamps import format_timestamp
from tenure.backends.tables.sqlite.keys import storage_class_of
from tenure.backends.tables.sqlite.layout import Layout
from tenure.core.job import State
from tenure.core.table.spec import USER_TABLE_ROLES, Role, quote_identifier

ROLES = tuple(Role)

load_templates = cache(raw_statements)


class _NullValues(dict[str, None]):
    """Null for every parameter."""

    def __missing__(self, name: str) -> None:
        return None


def fill_statement(layout: Layout, operation: str, name: str, **fragments: str) -> str:
    """Return a statement of an operation. Statements without extra fragments are cached."""
    cache_key = f"{operation}: {name}"
    if not fragments and (text := layout.statements.get(cache_key)) is not None:
        return text
    text = load_templates(__package__, operation)[name].format(**table_fragments(layout), **fragments)
    if not fragments:
        layout.statements[cache_key] = text
    return text


def has_invalid_statement(db: sqlite3.Connection, layout: Layout) -> bool:
    """Return whether SQLite cannot compile a statement that was used on the table, for example because of a trigger."""
    for text in list(layout.statements.values()):
        try:
            db.execute(f"explain {text}", _NullValues()).close()
        except sqlite3.OperationalError as exc:
            if primary_code(exc) == sqlite3.SQLITE_ERROR:
                return True
    return False


def table_fragments(layout: Layout) -> dict[str, str]:
    """Return the values of the placeholders in the templates."""
    spec, key = layout.spec, [quote_identifier(name) for name in layout.spec.key]
    user, own_name = f"main.{quote_identifier(layout.table.name)}", quote_identifier(spec.name)
    row, kept = table_aliases(layout)
    kept_table = f"main.{quote_identifier(spec.sidecar_name)}" if spec.sidecar_name is not None else user
    joined = " and ".join(f"{kept}.{name} = {row}.{name}" for name in key)
    alone = f"{user} as {row}"
    error = spec.column(Role.ERROR)
    return {
        **{role.value: quote_identifier(name) for role in Role if (name := spec.column(role)) is not None},
        **{f"its_{role}": _role_column(layout, role) for role in ROLES},
        **{f"is_{state}": f"{_role_column(layout, Role.STATE)} = {layout.state_literal(state)}" for state in State},
        **{f"as_{state}": layout.state_literal(state) for state in State},
        "user": user,
        "own_name": own_name,
        "row": row,
        "home": kept_table,
        "home_row": f"{kept_table} as {kept}",
        "rows": f"{user} as {row} left join {kept_table} as {kept} on {joined}" if spec.is_sidecar else alone,
        "held_rows": f"{kept_table} as {kept} join {user} as {row} on {joined}" if spec.is_sidecar else alone,
        "joined": joined,
        "key": ", ".join(key),
        "key_values": ", ".join(f":key_{n}" for n in range(len(key))),
        "is_key": " and ".join(f"{name} = :key_{n}" for n, name in enumerate(key)),
        "is_row": " and ".join(f"{row}.{name} = :key_{n}" for n, name in enumerate(key)),
        "row_key": ", ".join(f"{row}.{name}" for name in key),
        "and_usable": _and_condition(_has_id_condition(layout, own_name)),
        "and_has_id": _and_condition(_has_id_condition(layout, row)),
        "is_unusable": f"not ({_has_id_condition(layout, own_name) or 'true'})",
        "is_free": _is_free_condition(layout),
        "is_job": _is_job_condition(layout),
        "matches_where": _matches_where_condition(layout),
        "and_where": "" if spec.where is None else _and_condition(user_condition(layout, "where")),
        "done_if": user_condition(layout, "done_if"),
        "run_at_text": _comparable_timestamp(layout, Role.RUN_AT),
        "columns": ",\n  ".join(", ".join(line) for line in _select_list(layout)),
        "claim_columns": ",\n  ".join(", ".join(line) for line in _claim_select_list(layout)),
        "write_error": "" if error is None else f",\n  {quote_identifier(error)} = :error",
        "claim_order": ", ".join(each.sort_item(own_name) for each in layout.claim_order),
        "held_order": ", ".join(each.sort_item(row) for each in layout.claim_order),
        "due_since": _due_since_expression(layout),
        "found_done": found_done_expression(_role_column(layout, Role.RECORD)),
    }


def table_aliases(layout: Layout) -> tuple[str, str]:
    """Return the aliases of the user's table and of the table with the role columns."""
    name = layout.spec.name
    if not layout.spec.is_sidecar:
        return quote_identifier(name), quote_identifier(name)
    return quote_identifier(f"{name}_row"), quote_identifier(f"{name}_home")


def user_condition(layout: Layout, option: str) -> str:
    """Return a user's condition, with parameters named `param_…`."""
    fragment = layout.spec.where if option == "where" else layout.spec.done_if
    return "1" if fragment is None else f"({fragment.render('param')})"


def found_done_expression(record: str) -> str:
    """Return the expression for `found_done` in a record; null if the record is not valid JSON."""
    return f"case when json_valid({record}) then json_extract({record}, '$.found_done') end"


def _and_condition(text: str) -> str:
    """Return an additional condition on a new line, or an empty string."""
    return f"\n  and {text}" if text else ""


def _role_column(layout: Layout, role: Role) -> str:
    """Return the column of a role with its alias, for reading."""
    name = layout.spec.column(role)
    row, kept = table_aliases(layout)
    return "null" if name is None else f"{row if role in USER_TABLE_ROLES else kept}.{quote_identifier(name)}"


def _comparable_timestamp(layout: Layout, role: Role) -> str:
    """Return the timestamp of a role as comparable text. Columns that only tenure writes are comparable as stored."""
    column = _role_column(layout, role)
    return moment_expression(column) if role in layout.spec.columns else column


def moment_expression(column: str) -> str:
    """Return a timestamp of any format as comparable text; null if the value is not a timestamp.

    Python cannot read text that is not valid UTF-8, and the function would fail. So it is called only for ASCII.
    """
    return f"case when {column} glob '*[^' || char(1) || '-~]*' then null else tenure_moment({column}) end"


def _has_id_condition(layout: Layout, table: str) -> str:
    """Return the condition that a key has an id: SQLite allows any value in any column."""
    typeless = [each for each in layout.keys.columns if not each.is_row_id]
    named = {f"{table}.{quote_identifier(each.name)}": storage_class_of(each) for each in typeless}
    kinds = [f"typeof({name}) = '{kind}'" for name, kind in named.items()]
    return " and ".join([*kinds, *(f"instr({name}, char(0)) = 0" for name, kind in named.items() if kind == "text")])


def _is_free_condition(layout: Layout) -> str:
    """Return the condition that a row is queued and due, without the user's `where`."""
    run_at = _comparable_timestamp(layout, Role.RUN_AT)
    is_queued = f"{_role_column(layout, Role.STATE)} = {layout.state_literal(State.QUEUED)}"
    if not layout.spec.is_sidecar:
        return f"{is_queued} and ({run_at} is null or {run_at} <= :now)"
    _, kept = table_aliases(layout)
    taken = f"({kept}.{quote_identifier(Role.STATE)} <> {layout.state_literal(State.QUEUED)} or {run_at} > :now)"
    sidecar = f"main.{quote_identifier(str(layout.spec.sidecar_name))} as {kept}"
    return f"not exists (select 1 from {sidecar} where {_same_row_condition(layout)} and {taken})"  # noqa: S608 - quoted


def _due_since_expression(layout: Layout) -> str:
    """Return the expression for the time since when a free row is due: `run_at`, `created_at`, or 1970."""
    run_at, own_name = _comparable_timestamp(layout, Role.RUN_AT), quote_identifier(layout.spec.name)
    if layout.spec.is_sidecar:
        _, kept = table_aliases(layout)
        sidecar = quote_identifier(str(layout.spec.sidecar_name))
        run_at = f"(select {run_at} from main.{sidecar} as {kept} where {_same_row_condition(layout)})"  # noqa: S608
    created_at = layout.spec.columns.get(Role.CREATED_AT)
    created = "null" if created_at is None else moment_expression(f"{own_name}.{quote_identifier(created_at)}")
    return f"coalesce({run_at}, {created}, '{format_timestamp(0)}')"


def _same_row_condition(layout: Layout) -> str:
    """Return the condition that a sidecar row belongs to a row of the user's table."""
    _, kept = table_aliases(layout)
    own_name = quote_identifier(layout.spec.name)
    return " and ".join(
        f"{kept}.{quote_identifier(name)} = {own_name}.{quote_identifier(name)}" for name in layout.spec.key
    )


def _is_job_condition(layout: Layout) -> str:
    """Return the condition that a row is a job."""
    if layout.spec.is_sidecar:
        _, kept = table_aliases(layout)
        return f"({kept}.{quote_identifier(layout.spec.key[0])} is not null or {_matches_where_condition(layout)})"
    state = _role_column(layout, Role.STATE)
    words = ", ".join(layout.state_literal(each) for each in State)
    return (
        f"{state} in ({words}) and ({state} = {layout.state_literal(State.RUNNING)} or "
        f"{_matches_where_condition(layout)})"
    )


def _matches_where_condition(layout: Layout) -> str:
    """Return the condition that `where` matches a row."""
    where = user_condition(layout, "where")
    if not layout.spec.is_sidecar:
        return where
    row, _ = table_aliases(layout)
    own_name = quote_identifier(layout.spec.name)
    same = " and ".join(
        f"{own_name}.{quote_identifier(name)} = {row}.{quote_identifier(name)}" for name in layout.spec.key
    )
    return f"exists (select 1 from main.{quote_identifier(layout.table.name)} as {own_name} where {same} and {where})"  # noqa: S608


def _select_list(layout: Layout) -> list[list[str]]:
    """Return the select list of a row, in the order that `rows` decodes."""
    row, _ = table_aliases(layout)
    own = [f"{row}.{quote_identifier(each.name)}" for each in layout.user_columns]
    return [*_claim_select_list(layout, _matches_where_condition(layout)), own]


def _claim_select_list(layout: Layout, matches_where: str = "null") -> list[list[str]]:
    """Return the select list of the key and the role columns."""
    row, kept = table_aliases(layout)
    key = [f"{row}.{quote_identifier(name)}" for name in layout.spec.key]
    is_kept = f"{kept}.{quote_identifier(layout.spec.key[0])} is not null" if layout.spec.is_sidecar else "0"
    return [[*key, is_kept, matches_where], [_role_column(layout, role) for role in ROLES]]
