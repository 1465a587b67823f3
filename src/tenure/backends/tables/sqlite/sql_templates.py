"""The statements of a table: those of the `.sql` files, with its names in place of what stands in braces.

All names are quoted. Where a condition of the user's stands, his table is in scope by its own name and no other is:
beside the companion, the condition is wrapped in a select of its own.
"""

from functools import cache

from tenure.backends.shared.sql_files import parts
from tenure.backends.sqlite.timestamps import text_of
from tenure.backends.tables.sqlite.keys import kind_of
from tenure.backends.tables.sqlite.layout import Layout
from tenure.core.job import State
from tenure.core.table.spec import READ_BESIDE, Role, quoted

ROLES = tuple(Role)

parts_of = cache(parts)


def statement(layout: Layout, operation: str, name: str, **fragments: str) -> str:
    """Return a statement of an operation; one without fragments of its own is made once."""
    place = f"{operation}: {name}"
    if not fragments and (text := layout.texts.get(place)) is not None:
        return text
    text = parts_of(__package__, operation)[name].format(**fragments_of(layout), **fragments)
    if not fragments:
        layout.texts[place] = text
    return text


def fragments_of(layout: Layout) -> dict[str, str]:
    """Return what the statements name in braces."""
    spec, key = layout.spec, [quoted(name) for name in layout.spec.key]
    user, own_name = f"main.{quoted(layout.table.name)}", quoted(spec.name)
    row, kept = aliases_of(layout)
    kept_table = f"main.{quoted(spec.companion)}" if spec.companion is not None else user
    joined = " and ".join(f"{kept}.{name} = {row}.{name}" for name in key)
    alone = f"{user} as {row}"
    error = spec.column(Role.ERROR)
    return {
        **{role.value: quoted(name) for role in Role if (name := spec.column(role)) is not None},
        **{f"its_{role}": _its(layout, role) for role in ROLES},
        **{f"is_{state}": f"{_its(layout, Role.STATE)} = {layout.word(state)}" for state in State},
        **{f"as_{state}": layout.word(state) for state in State},
        "user": user,
        "own_name": own_name,
        "row": row,
        "kept": kept_table,
        "kept_row": f"{kept_table} as {kept}",
        "rows": f"{user} as {row} left join {kept_table} as {kept} on {joined}" if spec.is_sidecar else alone,
        "held_rows": f"{kept_table} as {kept} join {user} as {row} on {joined}" if spec.is_sidecar else alone,
        "joined": joined,
        "key": ", ".join(key),
        "key_values": ", ".join(f":key_{n}" for n in range(len(key))),
        "is_key": " and ".join(f"{name} = :key_{n}" for n, name in enumerate(key)),
        "is_row": " and ".join(f"{row}.{name} = :key_{n}" for n, name in enumerate(key)),
        "row_key": ", ".join(f"{row}.{name}" for name in key),
        "and_usable": _and(_is_usable(layout, own_name)),
        "and_has_id": _and(_is_usable(layout, row)),
        "is_unusable": f"not ({_is_usable(layout, own_name) or 'true'})",
        "is_free": _is_free(layout),
        "is_job": _is_job(layout),
        "is_chosen": _is_chosen(layout),
        "and_where": "" if spec.where is None else _and(condition(layout, "where")),
        "done_if": condition(layout, "done_if"),
        "run_at_text": _comparable(layout, Role.RUN_AT),
        "columns": ",\n  ".join(", ".join(line) for line in _columns(layout)),
        "write_error": "" if error is None else f",\n  {quoted(error)} = :error",
        "claim_order": ", ".join(each.sorted(own_name) for each in layout.claim_order),
        "held_order": ", ".join(each.sorted(row) for each in layout.claim_order),
        "due_since": _due_since(layout),
        "found_done": found_done(_its(layout, Role.RECORD)),
    }


def aliases_of(layout: Layout) -> tuple[str, str]:
    """Return how a statement names a row of the user's table, and what is kept of it."""
    name = layout.spec.name
    if not layout.spec.is_sidecar:
        return quoted(name), quoted(name)
    return quoted(f"{name}_row"), quoted(f"{name}_kept")


def condition(layout: Layout, which: str) -> str:
    """Return a condition of the user's; its values are named `param_…`."""
    fragment = layout.spec.where if which == "where" else layout.spec.done_if
    return "1" if fragment is None else f"({fragment.written('param')})"


def found_done(record: str) -> str:
    """Return how it is told that the work was found done; what another hand damaged tells nothing."""
    return f"case when json_valid({record}) then json_extract({record}, '$.found_done') end"


def _and(text: str) -> str:
    """Return one more condition on a line of its own, or nothing."""
    return f"\n  and {text}" if text else ""


def _its(layout: Layout, role: Role) -> str:
    """Return the column that plays a role, for where rows are read."""
    name = layout.spec.column(role)
    row, kept = aliases_of(layout)
    return "null" if name is None else f"{row if role in READ_BESIDE else kept}.{quoted(name)}"


def _comparable(layout: Layout, role: Role) -> str:
    """Return the moment of a role as a text that compares; what only tenure writes does so as it is."""
    its = _its(layout, role)
    return f"tenure_moment({its})" if role in layout.spec.columns else its


def _is_usable(layout: Layout, table: str) -> str:
    """Whether an id can be made of the key of a row: SQLite lets any value be in any column."""
    loose = [each for each in layout.keys.columns if not each.is_row_id]
    named = {f"{table}.{quoted(each.name)}": kind_of(each) for each in loose}
    kinds = [f"typeof({name}) = '{kind}'" for name, kind in named.items()]
    return " and ".join([*kinds, *(f"instr({name}, char(0)) = 0" for name, kind in named.items() if kind == "text")])


def _is_free(layout: Layout) -> str:
    """Whether a row is queued and due, as far as tenure decides that."""
    run_at = _comparable(layout, Role.RUN_AT)
    is_queued = f"{_its(layout, Role.STATE)} = {layout.word(State.QUEUED)}"
    if not layout.spec.is_sidecar:
        return f"{is_queued} and ({run_at} is null or {run_at} <= :now)"
    _, kept = aliases_of(layout)
    taken = f"({kept}.{quoted(Role.STATE)} <> {layout.word(State.QUEUED)} or {run_at} > :now)"
    companion = f"main.{quoted(str(layout.spec.companion))} as {kept}"
    return f"not exists (select 1 from {companion} where {_same(layout)} and {taken})"  # noqa: S608 - quoted


def _due_since(layout: Layout) -> str:
    """Since when a row is due that is free: its own moment, or when it came, or ever."""
    run_at, own_name = _comparable(layout, Role.RUN_AT), quoted(layout.spec.name)
    if layout.spec.is_sidecar:
        _, kept = aliases_of(layout)
        run_at = f"(select {run_at} from main.{quoted(str(layout.spec.companion))} as {kept} where {_same(layout)})"  # noqa: S608
    created_at = layout.spec.columns.get(Role.CREATED_AT)
    came_at = "null" if created_at is None else f"tenure_moment({own_name}.{quoted(created_at)})"
    return f"coalesce({run_at}, {came_at}, '{text_of(0)}')"


def _same(layout: Layout) -> str:
    """Whether what is kept is of a row, where a condition of the user's stands beside it."""
    _, kept = aliases_of(layout)
    own_name = quoted(layout.spec.name)
    return " and ".join(f"{kept}.{quoted(name)} = {own_name}.{quoted(name)}" for name in layout.spec.key)


def _is_job(layout: Layout) -> str:
    """Whether a row is shown as a job."""
    if layout.spec.is_sidecar:
        _, kept = aliases_of(layout)
        return f"({kept}.{quoted(layout.spec.key[0])} is not null or {_is_chosen(layout)})"
    state = _its(layout, Role.STATE)
    words = ", ".join(layout.word(each) for each in State)
    return f"{state} in ({words}) and ({state} = {layout.word(State.RUNNING)} or {_is_chosen(layout)})"


def _is_chosen(layout: Layout) -> str:
    """Whether the user's condition chooses a row."""
    where = condition(layout, "where")
    if not layout.spec.is_sidecar:
        return where
    row, _ = aliases_of(layout)
    own_name = quoted(layout.spec.name)
    same = " and ".join(f"{own_name}.{quoted(name)} = {row}.{quoted(name)}" for name in layout.spec.key)
    return f"exists (select 1 from main.{quoted(layout.table.name)} as {own_name} where {same} and {where})"  # noqa: S608


def _columns(layout: Layout) -> list[list[str]]:
    """Return what is read of a row, in the order of `rows.stored_of`."""
    row, kept = aliases_of(layout)
    key = [f"{row}.{quoted(name)}" for name in layout.spec.key]
    is_kept = f"{kept}.{quoted(layout.spec.key[0])} is not null" if layout.spec.is_sidecar else "0"
    own = [f"{row}.{quoted(each.name)}" for each in layout.visible]
    return [[*key, is_kept, _is_chosen(layout)], [_its(layout, role) for role in ROLES], own]
