"""Fill the templates in the `.sql` files with the names and state values of a table.

In CTEs the key columns are named `key_1`, `key_2` …, and the sort columns `sort_1`, `sort_2` ….
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from typing import Any

from tenure.backends.postgres.statements import Statement
from tenure.backends.shared.sql_files import raw_statements
from tenure.backends.tables.postgres.layout import KEY_TYPES, Layout, RoleColumn, quote_literal
from tenure.backends.tables.postgres.ordering import SortColumn, is_before, sort_columns_of
from tenure.backends.tables.postgres.statements import build_statement
from tenure.backends.tables.row_batches import REJECTION_NOTE
from tenure.core.checks import EARLIEST, TRUNCATION_MARK
from tenure.core.job import HISTORY_KEPT, State
from tenure.core.operations import LARGEST_BATCH
from tenure.core.table.condition import SqlCondition, indent
from tenure.core.table.spec import Role, quote_identifier

OPERATIONS = ("claim", "extend", "settle", "reap", "move", "find", "stats", "explain", "wait", "done")

MICROSECOND_PLACES = 6

UTC_TEXT = 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'
EARLIEST_SQL = f"timestamptz '{EARLIEST:%Y-%m-%dT%H:%M:%SZ}'"

CLAIM_RECORD_KEYS = ("progress", "cancel_requested", "found_done", "result", "result_dropped")
"""The keys of `record` that belong to one claim; the next claim removes them."""
COMPLETION_RECORD_KEYS = CLAIM_RECORD_KEYS[1:]

NUMBER_ROLES = (Role.ATTEMPTS, Role.CRASHES, Role.FENCE)
TIMESTAMP_ROLES = (Role.LEASED_UNTIL, Role.RUN_AT, Role.STARTED_AT, Role.COMPLETED_AT)

HOME_COLUMNS = ("state", "worker", "token", "record", *NUMBER_ROLES, *TIMESTAMP_ROLES)
"""The columns read from the home table."""

Fragments = Mapping[str, Any]
"""SQL fragments by their names in the templates; some take arguments, see `LazyFragments`."""


class LazyFragments(dict[str, str]):
    """Fragments built on access from their arguments: `{job_is[requested]}`."""

    def __init__(self, build: Callable[..., str]) -> None:
        super().__init__()
        self._build = build

    def __missing__(self, names: str) -> str:
        return self._build(*names.split(", "))


class SqlTemplates:
    """All statements on the table of a layout, each built on first use."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._mode = "sidecar" if layout.spec.is_sidecar else "mapped"
        self._statements: dict[str, Statement] = {}
        self._sort_columns = sort_columns_of(layout)
        self._key_names = [f"key_{number}" for number in range(1, len(layout.key) + 1)]

    def statement(self, operation: str, name: str, extra_fragments: Mapping[str, str] | None = None) -> Statement:
        """Return a statement with numbered placeholders, cached by operation, name and additional fragments."""
        cache_key = f"{operation}: {name}: {extra_fragments}"
        if cache_key not in self._statements:
            self._statements[cache_key] = build_statement(self.text(operation, name, extra_fragments))
        return self._statements[cache_key]

    def text(self, operation: str, name: str, extra_fragments: Mapping[str, str] | None = None) -> str:
        """Return the text of a statement with `:name` placeholders."""
        found = raw_statements(__package__, operation)
        body = found[name] if name in found else found[f"{name} {self._mode}"]
        return fill(body, {**self.fragments, **(extra_fragments or {})})

    def printable_sql(self) -> Mapping[str, str]:
        """Return the statements of each operation with comments, for reading."""
        return {operation: self._readable_file(operation) for operation in OPERATIONS if self._supports(operation)}

    @property
    def cursor_length(self) -> int:
        """Number of values in a cursor of `find`."""
        return len(self._find_sort_columns) + len(self._key_names)

    def find_fragments(
        self, states: Iterable[State], *, has_keys: bool, is_newest_first: bool, has_cursor: bool
    ) -> dict[str, str]:
        """Return the fragments of a page: its source, states, order and start."""
        sort_columns = [
            *self._find_sort_columns,
            *(SortColumn.of_key(each, n) for n, each in enumerate(self.layout.key, start=1)),
        ]
        wanted = sorted(set(states))
        words = ", ".join(self.layout.state_literals[each] for each in wanted)
        # A row without a sidecar row is queued. If the query excludes queued rows, the sidecar has all matches.
        where = (
            f"job.{'state_value' if State.QUEUED in wanted else 'home_state_value'} in ({words})" if wanted else "false"
        )
        row_values = [f"job.{each.name}" for each in sort_columns]
        cursor_values = [f"cast(:at_{n} as {each.cast_type})" for n, each in enumerate(sort_columns, start=1)]
        beyond = (
            is_before(sort_columns, row_values, cursor_values)
            if is_newest_first
            else is_before(sort_columns, cursor_values, row_values)
        )
        return {
            "source": self.fragments["requested_jobs" if has_keys else "jobs"],
            "has_requested_state": where,
            "is_beyond": beyond if has_cursor else "true",
            "order": ", ".join(
                each.order_item(f"job.{each.name}", is_reverse=is_newest_first) for each in sort_columns
            ),
        }

    def choice_fragments(self, operator: str) -> dict[str, str]:
        """Return the fragments that restrict a statement to the keys `:chosen_1` …, or exclude them (`not in`)."""
        columns = [quote_identifier(each.name) for each in self.layout.key]
        chosen = f"{operator} (select {', '.join(self._key_names)} from {self._requested_keys('chosen')})"  # noqa: S608
        if operator == "in" and len(columns) == 1:
            # The planner finds a few keys in an array by their index. A subquery makes it scan all due rows in order.
            chosen = f"= any (cast(:chosen_1 as {KEY_TYPES[self.layout.key[0].base]}[]))"
        return {
            "and_chosen_rows": f"\n  and ({_qualified(self.layout.alias, columns)}) {chosen}",
            "and_chosen_claims": f"\n  and ({_qualified(self.layout.sidecar_alias, columns)}) {chosen}",
        }

    @cached_property
    def fragments(self) -> Fragments:
        filled_parts: dict[str, Any] = {
            **self._name_fragments(),
            **self._key_fragments(),
            **self._role_fragments(),
            **self._order_fragments(),
            **self._condition_fragments(),
        }
        templates = {
            name.removesuffix(f" {self._mode}"): text for name, text in raw_statements(__package__, "fragments").items()
        }
        for name, text in templates.items():
            if " " not in name and name not in DEFERRED_PARTS:
                filled_parts[name] = fill(text, filled_parts)
        moved = templates["ending_of_moved"]
        updates_user_rows = self.layout.spec.is_sidecar and bool(self.layout.on_retry)
        return {
            **filled_parts,
            "and_user_rows_updated": f",\n{filled_parts['user_rows_updated']}" if updates_user_rows else "",
            "unfiltered_jobs": fill(templates["jobs"], {**filled_parts, "where": "true"}),
            "taken_job_json": fill(templates["job_json"], {**filled_parts, "texts": "job.texts"}),
            "ending_of_retried": fill(moved, {**filled_parts, **RETRY_FRAGMENTS}),
            "ending_of_cancelled": fill(moved, {**filled_parts, **CANCEL_FRAGMENTS}),
        }

    def _name_fragments(self) -> Fragments:
        layout = self.layout
        return {
            "rows": f"{layout.table.quoted_name} as {layout.alias}",
            "alias": layout.alias,
            "outer_rows": f"{layout.table.quoted_name} as {layout.outer_alias}",
            "outer": layout.outer_alias,
            "home": layout.home,
            "sidecar": layout.sidecar_alias,
            "home_rows": f"{layout.home} {self._home_alias}",
            "home_alias": self._home_alias,
            "texts": self._row_texts(),
            "history_kept": str(HISTORY_KEPT),
            "largest_batch": str(LARGEST_BATCH),
            "claim_record_keys": _text_array(CLAIM_RECORD_KEYS),
            "completion_record_keys": _text_array(COMPLETION_RECORD_KEYS),
            "recovered": "jsonb_build_object('found_done', 'recovered')",
            "earliest": EARLIEST_SQL,
            "iso": LazyFragments(_iso),
            "timestamp_text": LazyFragments(lambda timestamp: f"replace({_iso(timestamp)}, '.000000', '')"),
            "table_literal": quote_literal(layout.table.quoted_name),
        }

    def _key_fragments(self) -> Fragments:
        layout, alias, sidecar, names = self.layout, self.layout.alias, self.layout.sidecar_alias, self._key_names
        columns = [quote_identifier(each.name) for each in layout.key]
        nullable = [quote_identifier(each.name) for each in layout.key if each.is_nullable]
        same = _equal_columns(layout.outer_alias, columns, "job", columns)
        return {
            "keys": ", ".join(columns),
            "key_names": ", ".join(names),
            "row_key": _qualified(alias, columns),
            "sidecar_key": _qualified(sidecar, columns),
            "row_keys": _aliased(alias, columns, names),
            "job_keys": _aliased("job", columns, names),
            "sidecar_keys": _aliased(sidecar, columns, names),
            "row_key_order": _qualified(alias, columns),
            "sidecar_key_order": _qualified(sidecar, columns),
            "keys_of": LazyFragments(lambda part: _qualified(part, names)),
            "key_of": LazyFragments(lambda part: _json_texts(f"{part}.{name}" for name in names)),
            "key_of_row": _json_texts(f"{alias}.{each}" for each in columns),
            "sidecar_key_texts": _json_texts(f"{sidecar}.{each}" for each in columns),
            "job_is": LazyFragments(lambda part: _equal_columns("job", columns, part, names)),
            "row_is": LazyFragments(lambda part: _equal_columns(layout.outer_alias, columns, part, names)),
            "sidecar_is_row": _equal_columns(sidecar, columns, alias, columns),
            "and_has_row": f" and exists (select from {layout.table.quoted_name} as {layout.outer_alias} where {same})"
            if layout.spec.is_sidecar
            else "",
            "same_key": LazyFragments(lambda one, other: _equal_columns(one, names, other, names)),
            "has_key": "".join(f" and {alias}.{each} is not null" for each in nullable),
            "sidecar_has_key": "".join(f" and {sidecar}.{each} is not null" for each in nullable),
            "requested_keys": self._requested_keys(),
            # Statements in their usual form; `choice_fragments` and `REJECTION_FRAGMENTS` replace these.
            "and_chosen_rows": "",
            "and_chosen_claims": "",
            "when_rejected": "",
            "and_rejection": "",
            "or_rejected": "",
            "lock_due_rows": "\n  for no key update skip locked",
            "lock_expired_claims": "",
            "skip_locked": " skip locked",
            "claim_keys": ", ".join(
                f"cast(claim.value -> 'key' ->> {number} as {KEY_TYPES[each.base]}){each.collate_clause} as "
                f"key_{number + 1}"
                for number, each in enumerate(layout.key)
            ),
        }

    def _role_fragments(self) -> Fragments:
        layout, alias = self.layout, self.layout.alias
        error = layout.role_columns.get(Role.ERROR)
        error_column = "" if error is None else quote_identifier(error.name)
        error_text = "ending.error" if error is None else _cut_to_column("ending.error", error)
        is_set_by_retry = error is not None and error.name in layout.spec.on_retry
        return {
            **{part.role.value: quote_identifier(part.name) for part in layout.role_columns.values()},
            **{state.value: word for state, word in layout.state_literals.items()},
            "zone": {each.value: self._utc_conversion(each) for each in layout.role_columns},
            "state_literal": LazyFragments(self._state_literal_case),
            "outer_record": self._record_object(layout.outer_alias),
            "job_record": self._record_object("job"),
            "row_roles": self._select_roles(alias),
            "outer_roles": self._select_roles(layout.outer_alias),
            "job_roles": self._select_roles("job"),
            "sidecar_roles": self._select_roles(layout.sidecar_alias),
            "roles_of": LazyFragments(lambda part: _qualified(part, HOME_COLUMNS)),
            "roles_or_none": self._select_roles("job", default_state=State.QUEUED),
            "row_user_roles": self._user_role_columns(alias),
            "outer_user_roles": self._user_role_columns(layout.outer_alias),
            "row_created_at": self._created_at(alias),
            "has_known_state": (
                f"{alias}.{quote_identifier(layout.role_columns[Role.STATE].name)} in "
                f"({', '.join(layout.state_literals.values())})"
            ),
            "scheduled_at": (
                f"({self._home_alias}.{quote_identifier(layout.role_columns[Role.RUN_AT].name)})"
                f"{self._utc_conversion(Role.RUN_AT)}"
            ),
            "set_error": error_column
            and f"\n    {error_column} = case\n      when ending.state <> 'completed' "
            f"then coalesce({error_text}, job.{error_column})\n    end,",
            "set_cancel_error": error_column and f"\n    {error_column} = {error_text},",
            "set_retry_error": "" if is_set_by_retry else error_column and f"\n    {error_column} = {error_text},",
            "lease_margin": self._lease_margin(),
            **self._on_retry_fragments(),
        }

    def _order_fragments(self) -> Fragments:
        sort_columns, alias, names = self._sort_columns, self.layout.alias, self._key_names
        columns = [quote_identifier(each.name) for each in self.layout.key]
        return {
            "row_sort_columns": "".join(
                f", {alias}.{quote_identifier(each.column.name)} as {each.name}" for each in sort_columns
            ),
            "sort_names": "".join(f", {each.name}" for each in sort_columns),
            "sort_columns_of": LazyFragments(lambda part: "".join(f", {part}.{each.name}" for each in sort_columns)),
            "row_claim_order": ", ".join(
                [
                    *(each.order_item(f"{alias}.{quote_identifier(each.column.name)}") for each in sort_columns),
                    _qualified(alias, columns),
                ]
            ),
            "claim_order_of": LazyFragments(
                lambda part: ", ".join(
                    [*(each.order_item(f"{part}.{each.name}") for each in sort_columns), _qualified(part, names)]
                )
            ),
            "position_of": LazyFragments(
                lambda part: _json_texts(
                    f"{part}.{name}" for name in [*(each.name for each in self._find_sort_columns), *names]
                )
            ),
            "other_is_before_job": self._other_is_before_job(),
        }

    def _condition_fragments(self) -> Fragments:
        spec = self.layout.spec
        attempts = "false" if spec.max_attempts is None else f"expired.attempts >= {spec.max_attempts}"
        return {
            "where": _condition_sql(spec.where) or "true",
            "done_if": _condition_sql(spec.done_if) or "false",
            "is_exhausted": f"({attempts} or expired.crashes + 1 >= {spec.max_crashes})",
            "stored": LazyFragments(self._rows_in_state),
        }

    @property
    def _home_alias(self) -> str:
        """The alias of the home table in scope of the user's conditions."""
        return self.layout.sidecar_alias if self.layout.spec.is_sidecar else self.layout.alias

    @property
    def _find_sort_columns(self) -> list[SortColumn]:
        return [each for each in self._sort_columns if not each.is_priority]

    def _row_texts(self) -> str:
        """Return the user's row as an array of texts. `concat` uses the output functions; a cast to text may not."""
        values = [f"{self.layout.outer_alias}.{quote_identifier(each.name)}" for each in self.layout.columns]
        each = ",\n  ".join(
            f"case when {value} is distinct from null then pg_catalog.concat({value}) end" for value in values
        )
        return f"to_json(cast(array[\n  {each}\n] as text[]))"

    def _requested_keys(self, prefix: str = "key") -> str:
        arrays = ", ".join(
            f"cast(:{prefix}_{number} as {KEY_TYPES[each.base]}[])"
            for number, each in enumerate(self.layout.key, start=1)
        )
        return f"unnest({arrays}) as requested ({', '.join(self._key_names)})"

    def _select_roles(self, part: str, default_state: State | None = None) -> str:
        """Select the role columns under standard names and types; `default_state` is for rows missing in the home."""
        names = {role: f"{part}.{quote_identifier(each.name)}" for role, each in self.layout.role_columns.items()}
        state_expression = (
            names[Role.STATE]
            if default_state is None
            else f"coalesce({names[Role.STATE]}, {self.layout.state_literals[default_state]})"
        )
        cases = "".join(f"\n  when {literal} then '{state}'" for state, literal in self.layout.state_literals.items())
        return ",\n".join(
            [
                f"case {state_expression}{cases}\nend as state",
                *(f"cast({names[role]} as text) as {role}" for role in (Role.WORKER, Role.TOKEN)),
                f"{self._record_object(part)} as record",
                *(f"coalesce({names[role]}, 0) as {role}" for role in NUMBER_ROLES),
                *(f"({names[role]}){self._utc_conversion(role)} as {role}" for role in TIMESTAMP_ROLES),
            ]
        )

    def _record_object(self, part: str) -> str:
        """Return the `record` column, or null if it is not a JSON object (for example edited by hand)."""
        name = f"{part}.{quote_identifier(self.layout.role_columns[Role.RECORD].name)}"
        return f"case when jsonb_typeof({name}) = 'object' then {name} end"

    def _utc_conversion(self, role: Role) -> str:
        """Return the conversion between a timestamp column without time zone and UTC; empty if not needed."""
        return " at time zone 'UTC'" if self.layout.role_columns[role].is_local else ""

    def _lease_margin(self) -> str:
        """Return the interval that makes the server round the end of a lease up, not to the nearest unit of the column.

        A lease that ends early in the store would be given away while the holder still counts on it.
        """
        column = self.layout.role_columns[Role.LEASED_UNTIL].column
        if column is None or column.precision is None or column.precision >= MICROSECOND_PLACES:
            return ""
        unit = 10 ** (MICROSECOND_PLACES - column.precision)
        return f" + interval '{unit // 2 - 1} microseconds'"

    def _state_literal_case(self, name: str) -> str:
        cases = "".join(f"\n  when '{state}' then {word}" for state, word in self.layout.state_literals.items())
        return f"case {name}{cases}\nend"

    def _user_role_columns(self, alias: str) -> str:
        return f"{self._priority(alias)} as priority, {self._created_at(alias)} as created_at"

    def _priority(self, alias: str) -> str:
        part = self.layout.role_columns.get(Role.PRIORITY)
        return "0" if part is None else f"coalesce({alias}.{quote_identifier(part.name)}, 0)"

    def _created_at(self, alias: str) -> str:
        part = self.layout.role_columns.get(Role.CREATED_AT)
        if part is None:
            return "cast(null as timestamptz)"
        return f"({alias}.{quote_identifier(part.name)}){self._utc_conversion(Role.CREATED_AT)}"

    def _on_retry_fragments(self) -> Fragments:
        columns = [quote_identifier(each.name) for each in self.layout.on_retry]
        values = [f"{column} = :retry_{number}" for number, column in enumerate(columns, start=1)]
        is_sidecar = self.layout.spec.is_sidecar
        return {
            "set_by_retry": "" if is_sidecar else "".join(f"\n    {each}," for each in values),
            "set_user_columns": ", ".join(values),
        }

    def _rows_in_state(self, name: str) -> str:
        """Return the FROM and WHERE of the rows in a state. Running rows are jobs even if `where` excludes them."""
        layout, state = self.layout, State(name)
        word = (
            f"{self._home_alias}.{quote_identifier(layout.role_columns[Role.STATE].name)} = "
            f"{layout.state_literals[state]}"
        )
        rows = f"{layout.table.quoted_name} as {layout.alias}"
        columns = [quote_identifier(each.name) for each in layout.key]
        if layout.spec.is_sidecar:
            same = _equal_columns(layout.sidecar_alias, columns, layout.alias, columns)
            has_row = f"exists (select from {rows} where {same})"
            return f"from {layout.home} {layout.sidecar_alias} where {word} and {has_row}"
        chosen = "" if state is State.RUNNING else f" and ({_condition_sql(layout.spec.where) or 'true'})"
        return f"from {rows} where {word}{chosen}"

    def _other_is_before_job(self) -> str:
        sort_columns = [
            *self._sort_columns,
            *(SortColumn.of_key(each, n) for n, each in enumerate(self.layout.key, start=1)),
        ]
        return is_before(
            sort_columns, [f"other.{each.name}" for each in sort_columns], [f"job.{each.name}" for each in sort_columns]
        )

    def _supports(self, operation: str) -> bool:
        return operation != "done" or self.layout.spec.done_if is not None

    def _readable_file(self, operation: str) -> str:
        """Return the file of an operation with its fragments filled in, without statements for the other mode."""
        text = files(__package__).joinpath(f"{operation}.sql").read_text("utf-8")
        head, *sections = re.split(r"^(?=-- name: )", text, flags=re.MULTILINE)
        other = "mapped" if self._mode == "sidecar" else "sidecar"
        kept = [each for each in sections if not each.partition("\n")[0].endswith(f" {other}")]
        shown = self.find_fragments(State, has_keys=False, is_newest_first=False, has_cursor=False)
        return fill("".join([head, *kept]), {**self.fragments, **shown})


DEFERRED_PARTS = ("ending_of_moved",)
"""Parts that need additional fragments."""

REJECTION_FRAGMENTS = {
    "is_done": "false",
    "or_rejected": " or true",
    "when_rejected": "when true then 'failed'\n      ",
    "and_rejection": f" || '; {REJECTION_NOTE}: ' || cast(:rejection as text)",
}
"""The fragments that fail a row whose table rejected its usual end. rejection: the message of the table."""

WAITING_FRAGMENTS = {"skip_locked": "", "is_busy": "false"}
"""The fragments that make a statement wait for rows that another transaction has locked."""

RETRY_FRAGMENTS: Fragments = {
    "is_movable": "found.state in ('failed', 'cancelled')",
    "added_by_move": "cast('{}' as jsonb)",
    "removed_by_move": "array['progress', 'cancel_requested', 'found_done', 'result', 'result_dropped']",
}
CANCEL_FRAGMENTS: Fragments = {
    "is_movable": "found.state = 'queued'\n"
    "or (found.state = 'running' and (found.record -> 'cancel_requested' = 'true') is not true)",
    "added_by_move": "case\n"
    "  when found.state = 'running' then jsonb_build_object('cancel_requested', true) else '{}'\n"
    "end",
    "removed_by_move": "array['cancel_requested']",
}
"""The fragments that differ between retry and cancel."""


def fill(template: str, fragments: Fragments) -> str:
    """Fill a template with fragments; indent their lines like the line that contains them."""
    return "\n".join(indent(line.format(**fragments), _margin(line)) for line in template.split("\n"))


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _condition_sql(fragment: SqlCondition | None) -> str:
    return "" if fragment is None else fragment.render("param")


def _iso(timestamp: str) -> str:
    return f"to_char({timestamp} at time zone 'UTC', {quote_literal(UTC_TEXT)})"


def _cut_to_column(text: str, role_column: RoleColumn) -> str:
    """Return a text, cut to the length of its column. The text loses its beginning: the cause is at the end."""
    longest = None if role_column.column is None else role_column.column.longest
    if longest is None:
        return text
    mark = TRUNCATION_MARK if longest > 2 * len(TRUNCATION_MARK) else ""
    cut = f"{quote_literal(mark)} || right({text}, {longest - len(mark)})"
    return f"case when length({text}) > {longest} then {cut} else {text} end"


def _qualified(part: str, names: Iterable[str]) -> str:
    return ", ".join(f"{part}.{name}" for name in names)


def _aliased(part: str, columns: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{part}.{column} as {name}" for column, name in zip(columns, names, strict=True))


def _equal_columns(one: str, columns: Sequence[str], other: str, names: Sequence[str]) -> str:
    pairs = zip(columns, names, strict=True)
    return " and ".join(f"{one}.{column} = {other}.{name}" for column, name in pairs)


def _json_texts(values: Iterable[str]) -> str:
    return f"to_json(array[{', '.join(f'cast({each} as text)' for each in values)}])"


def _text_array(names: Iterable[str]) -> str:
    return f"array[{', '.join(quote_literal(each) for each in names)}]"
