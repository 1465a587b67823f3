"""The statements on a table: what stands in the `.sql` files, with the names and words of this table in it.

In the parts of a statement a key is called `key_1`, `key_2` …, and what rows are ordered by, `turn_1`, `turn_2` ….
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from typing import Any

from tenure.backends.postgres.statements import Statement
from tenure.backends.shared.sql_files import parts
from tenure.backends.tables.postgres.layout import KEY_TYPES, Layout, literal
from tenure.backends.tables.postgres.ordering import Turn, is_before, turns_of
from tenure.backends.tables.postgres.statements import numbered
from tenure.core.checks import EARLIEST
from tenure.core.job import HISTORY_KEPT, State
from tenure.core.operations import LARGEST_BATCH
from tenure.core.table.condition import Fragment, indented
from tenure.core.table.spec import Role, quoted

OPERATIONS = ("claim", "extend", "settle", "reap", "move", "find", "stats", "standing", "wait", "done")

UTC_TEXT = 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'
EVER = f"timestamptz '{EARLIEST:%Y-%m-%dT%H:%M:%SZ}'"

OF_A_CLAIM = ("progress", "cancel_requested", "found_done", "result", "result_dropped")
"""What of a record is about one claim, and gone with the next."""
OF_AN_END = OF_A_CLAIM[1:]

NUMBERS = (Role.ATTEMPTS, Role.CRASHES, Role.FENCE)
MOMENTS = (Role.LEASED_UNTIL, Role.RUN_AT, Role.STARTED_AT, Role.COMPLETED_AT)

READ = ("state", "worker", "token", "record", *NUMBERS, *MOMENTS)
"""What is read of the home."""

Fragments = Mapping[str, Any]
"""By the names that the statements have for it, what stands in them; some by what they are about."""


class About(dict[str, str]):
    """Fragments that are made of names: `{job_is[asked]}`."""

    def __init__(self, make: Callable[..., str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, names: str) -> str:
        return self._make(*names.split(", "))


class Wording:
    """All statements on the table of a layout, each made when it is first asked for."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._mode = "sidecar" if layout.spec.is_sidecar else "mapped"
        self._made: dict[str, Statement] = {}
        self._turns = turns_of(layout)
        self._key_names = [f"key_{number}" for number in range(1, len(layout.key) + 1)]

    def statement(self, operation: str, name: str, more: Mapping[str, str] | None = None) -> Statement:
        """Return a statement as the server takes it; one that says more is known by that."""
        known = f"{operation}: {name}: {more}"
        if known not in self._made:
            self._made[known] = numbered(self.text(operation, name, more))
        return self._made[known]

    def text(self, operation: str, name: str, more: Mapping[str, str] | None = None) -> str:
        """Return the text of a statement, in which values are still named."""
        found = parts(__package__, operation)
        body = found[name] if name in found else found[f"{name} {self._mode}"]
        return filled(body, {**self.fragments, **(more or {})})

    def texts(self) -> Mapping[str, str]:
        """Return the statements of each operation as they are sent, to be read, with comments."""
        return {operation: self._readable(operation) for operation in OPERATIONS if self._has(operation)}

    @property
    def places(self) -> int:
        """How many values tell where a row stands in `find`."""
        return len(self._turns_of_find) + len(self._key_names)

    def of_find(
        self, states: Iterable[State], *, is_named: bool, is_newest_first: bool, goes_on: bool
    ) -> dict[str, str]:
        """Return what a page depends on: of which states, whether of named rows, in which order, where it begins."""
        turns = [*self._turns_of_find, *(Turn.of_key(each, n) for n, each in enumerate(self.layout.key, start=1))]
        wanted = sorted(set(states))
        words = ", ".join(self.layout.words[each] for each in wanted)
        # A row that the companion has not seen is queued: where that is not asked for, the companion has them all.
        where = f"job.{'word' if State.QUEUED in wanted else 'kept_word'} in ({words})" if wanted else "false"
        here = [f"job.{each.name}" for each in turns]
        there = [f"cast(:at_{n} as {each.compared_as})" for n, each in enumerate(turns, start=1)]
        beyond = is_before(turns, here, there) if is_newest_first else is_before(turns, there, here)
        return {
            "source": self.fragments["jobs_named" if is_named else "jobs"],
            "is_asked_for": where,
            "is_beyond": beyond if goes_on else "true",
            "order": ", ".join(each.order(f"job.{each.name}", is_reverse=is_newest_first) for each in turns),
        }

    @cached_property
    def fragments(self) -> Fragments:
        made: dict[str, Any] = {**self._names(), **self._keys(), **self._roles(), **self._order(), **self._conditions()}
        templates = {name.removesuffix(f" {self._mode}"): text for name, text in parts(__package__, "row").items()}
        for name, text in templates.items():
            if " " not in name and name not in LATER:
                made[name] = filled(text, made)
        moved = templates["ending_of_moved"]
        is_touched = self.layout.spec.is_sidecar and bool(self.layout.on_retry)
        return {
            **made,
            "and_touched": f",\n{made['touched']}" if is_touched else "",
            "jobs_beside": filled(templates["jobs"], {**made, "where": "true"}),
            "shown_taken": filled(templates["shown"], {**made, "texts": "job.texts"}),
            "ending_of_retried": filled(moved, {**made, **RETRIED}),
            "ending_of_cancelled": filled(moved, {**made, **CANCELLED}),
        }

    def _names(self) -> Fragments:
        layout = self.layout
        return {
            "rows": f"{layout.table.place} as {layout.alias}",
            "alias": layout.alias,
            "rows_apart": f"{layout.table.place} as {layout.apart}",
            "apart": layout.apart,
            "home": layout.home,
            "ours": layout.ours,
            "home_rows": f"{layout.home} {self._held_by}",
            "held_by": self._held_by,
            "texts": self._texts(),
            "history_kept": str(HISTORY_KEPT),
            "largest_batch": str(LARGEST_BATCH),
            "of_a_claim": _array(OF_A_CLAIM),
            "of_an_end": _array(OF_AN_END),
            "recovered": "jsonb_build_object('found_done', 'recovered')",
            "ever": EVER,
            "iso": About(_iso),
            "shown_at": About(lambda moment: f"replace({_iso(moment)}, '.000000', '')"),
            "table_told": literal(layout.table.place),
        }

    def _keys(self) -> Fragments:
        layout, alias, ours, names = self.layout, self.layout.alias, self.layout.ours, self._key_names
        columns = [quoted(each.name) for each in layout.key]
        nullable = [each for each in layout.key if each.is_nullable]
        here = _same(layout.apart, columns, "job", columns)
        return {
            "keys": ", ".join(columns),
            "key_names": ", ".join(names),
            "row_key": _each(alias, columns),
            "ours_key": _each(ours, columns),
            "row_keys": _as(alias, columns, names),
            "job_keys": _as("job", columns, names),
            "ours_keys": _as(ours, columns, names),
            "row_in_order": _each(alias, columns),
            "ours_in_order": _each(ours, columns),
            "keys_of": About(lambda part: _each(part, names)),
            "key_of": About(lambda part: _texts_of(f"{part}.{name}" for name in names)),
            "key_of_row": _texts_of(f"{alias}.{each}" for each in columns),
            "job_is": About(lambda part: _same("job", columns, part, names)),
            "row_is": About(lambda part: _same(layout.apart, columns, part, names)),
            "ours_is_row": _same(ours, columns, alias, columns),
            "and_has_row": f" and exists (select from {layout.table.place} as {layout.apart} where {here})"
            if layout.spec.is_sidecar
            else "",
            "same_key": About(lambda one, other: _same(one, names, other, names)),
            "has_key": "".join(f" and {alias}.{quoted(each.name)} is not null" for each in nullable),
            "asked_keys": self._asked_keys(),
            "claim_keys": ", ".join(
                f"cast(claim.asked -> 'key' ->> {number} as {KEY_TYPES[each.base]}){each.collated} as key_{number + 1}"
                for number, each in enumerate(layout.key)
            ),
        }

    def _roles(self) -> Fragments:
        layout, alias = self.layout, self.layout.alias
        error = layout.parts.get(Role.ERROR)
        told = "" if error is None else quoted(error.name)
        is_set_by_retry = error is not None and error.name in layout.spec.on_retry
        return {
            **{part.role.value: quoted(part.name) for part in layout.parts.values()},
            **{state.value: word for state, word in layout.words.items()},
            "zone": {each.value: self._zone(each) for each in layout.parts},
            "word": About(self._word),
            "apart_record": self._record(layout.apart),
            "job_record": self._record("job"),
            "row_roles": self._read(alias),
            "apart_roles": self._read(layout.apart),
            "job_roles": self._read("job"),
            "ours_roles": self._read(layout.ours),
            "roles_of": About(lambda part: _each(part, READ)),
            "roles_or_none": self._read("job", word=State.QUEUED),
            "row_beside": self._beside(alias),
            "apart_beside": self._beside(layout.apart),
            "row_created_at": self._created_at(alias),
            "is_in_words": f"{alias}.{quoted(layout.parts[Role.STATE].name)} in ({', '.join(layout.words.values())})",
            "scheduled_at": f"({self._held_by}.{quoted(layout.parts[Role.RUN_AT].name)}){self._zone(Role.RUN_AT)}",
            "error_told": told
            and f"\n    {told} = case\n      when ending.state <> 'completed' "
            f"then coalesce(ending.error, job.{told})\n    end,",
            "error_moved": told and f"\n    {told} = ending.error,",
            "error_retried": "" if is_set_by_retry else told and f"\n    {told} = ending.error,",
            **self._set_by_retry(),
        }

    def _order(self) -> Fragments:
        turns, alias, names = self._turns, self.layout.alias, self._key_names
        columns = [quoted(each.name) for each in self.layout.key]
        return {
            "row_turns": "".join(f", {alias}.{quoted(each.column.name)} as {each.name}" for each in turns),
            "turn_names": "".join(f", {each.name}" for each in turns),
            "turns_of": About(lambda part: "".join(f", {part}.{each.name}" for each in turns)),
            "row_in_turn": ", ".join(
                [*(each.order(f"{alias}.{quoted(each.column.name)}") for each in turns), _each(alias, columns)]
            ),
            "in_turn": About(
                lambda part: ", ".join([*(each.order(f"{part}.{each.name}") for each in turns), _each(part, names)])
            ),
            "place_of": About(
                lambda part: _texts_of(
                    f"{part}.{name}" for name in [*(each.name for each in self._turns_of_find), *names]
                )
            ),
            "other_is_before_job": self._other_is_before_job(),
        }

    def _conditions(self) -> Fragments:
        spec = self.layout.spec
        attempts = "false" if spec.max_attempts is None else f"expired.attempts >= {spec.max_attempts}"
        return {
            "where": _written(spec.where) or "true",
            "done_if": _written(spec.done_if) or "false",
            "is_spent": f"({attempts} or expired.crashes + 1 >= {spec.max_crashes})",
            "stored": About(self._stored),
        }

    @property
    def _held_by(self) -> str:
        """What the home is called where conditions of the user's stand."""
        return self.layout.ours if self.layout.spec.is_sidecar else self.layout.alias

    @property
    def _turns_of_find(self) -> list[Turn]:
        return [each for each in self._turns if not each.is_priority]

    def _texts(self) -> str:
        """Return the user's row as texts, as the server writes values to a driver: a cast may write another text."""
        values = [f"{self.layout.apart}.{quoted(each.name)}" for each in self.layout.columns]
        each = ",\n  ".join(
            f"case when {value} is distinct from null then pg_catalog.concat({value}) end" for value in values
        )
        return f"to_json(cast(array[\n  {each}\n] as text[]))"

    def _asked_keys(self) -> str:
        arrays = ", ".join(
            f"cast(:key_{number} as {KEY_TYPES[each.base]}[])" for number, each in enumerate(self.layout.key, start=1)
        )
        return f"unnest({arrays}) as asked ({', '.join(self._key_names)})"

    def _read(self, part: str, word: State | None = None) -> str:
        """Return the roles that the home has, whatever its columns are; of a row that it has not, in a state."""
        names = {role: f"{part}.{quoted(each.name)}" for role, each in self.layout.parts.items()}
        told = names[Role.STATE] if word is None else f"coalesce({names[Role.STATE]}, {self.layout.words[word]})"
        cases = "".join(f"\n  when {word} then '{state}'" for state, word in self.layout.words.items())
        return ",\n".join(
            [
                f"case {told}{cases}\nend as state",
                *(f"cast({names[role]} as text) as {role}" for role in (Role.WORKER, Role.TOKEN)),
                f"{self._record(part)} as record",
                *(f"coalesce({names[role]}, 0) as {role}" for role in NUMBERS),
                *(f"({names[role]}){self._zone(role)} as {role}" for role in MOMENTS),
            ]
        )

    def _record(self, part: str) -> str:
        """Return what is remembered; what another hand has made of it counts as nothing."""
        name = f"{part}.{quoted(self.layout.parts[Role.RECORD].name)}"
        return f"case when jsonb_typeof({name}) = 'object' then {name} end"

    def _zone(self, role: Role) -> str:
        """Return what makes a moment of a column one with a time zone, and the reverse."""
        return " at time zone 'UTC'" if self.layout.parts[role].is_local else ""

    def _word(self, name: str) -> str:
        cases = "".join(f"\n  when '{state}' then {word}" for state, word in self.layout.words.items())
        return f"case {name}{cases}\nend"

    def _beside(self, alias: str) -> str:
        return f"{self._priority(alias)} as priority, {self._created_at(alias)} as created_at"

    def _priority(self, alias: str) -> str:
        part = self.layout.parts.get(Role.PRIORITY)
        return "0" if part is None else f"coalesce({alias}.{quoted(part.name)}, 0)"

    def _created_at(self, alias: str) -> str:
        part = self.layout.parts.get(Role.CREATED_AT)
        if part is None:
            return "cast(null as timestamptz)"
        return f"({alias}.{quoted(part.name)}){self._zone(Role.CREATED_AT)}"

    def _set_by_retry(self) -> Fragments:
        columns = [quoted(each.name) for each in self.layout.on_retry]
        values = [f"{column} = :retry_{number}" for number, column in enumerate(columns, start=1)]
        is_beside = self.layout.spec.is_sidecar
        return {
            "set_by_retry": "" if is_beside else "".join(f"\n    {each}," for each in values),
            "set_beside": ", ".join(values),
        }

    def _stored(self, name: str) -> str:
        """Return where the rows of a state are; those that run are jobs whatever `where` says."""
        layout, state = self.layout, State(name)
        word = f"{self._held_by}.{quoted(layout.parts[Role.STATE].name)} = {layout.words[state]}"
        rows = f"{layout.table.place} as {layout.alias}"
        columns = [quoted(each.name) for each in layout.key]
        if layout.spec.is_sidecar:
            same = _same(layout.ours, columns, layout.alias, columns)
            beside = f"exists (select from {rows} where {same})"
            return f"from {layout.home} {layout.ours} where {word} and {beside}"
        chosen = "" if state is State.RUNNING else f" and ({_written(layout.spec.where) or 'true'})"
        return f"from {rows} where {word}{chosen}"

    def _other_is_before_job(self) -> str:
        turns = [*self._turns, *(Turn.of_key(each, n) for n, each in enumerate(self.layout.key, start=1))]
        return is_before(turns, [f"other.{each.name}" for each in turns], [f"job.{each.name}" for each in turns])

    def _has(self, operation: str) -> bool:
        return operation != "done" or self.layout.spec.done_if is not None

    def _readable(self, operation: str) -> str:
        """Return the file of an operation with everything in its place, but what is for the other kind of table."""
        text = files(__package__).joinpath(f"{operation}.sql").read_text("utf-8")
        head, *sections = re.split(r"^(?=-- name: )", text, flags=re.MULTILINE)
        other = "mapped" if self._mode == "sidecar" else "sidecar"
        kept = [each for each in sections if not each.partition("\n")[0].endswith(f" {other}")]
        shown = self.of_find(State, is_named=False, is_newest_first=False, goes_on=False)
        return filled("".join([head, *kept]), {**self.fragments, **shown})


LATER = ("ending_of_moved",)
"""Parts that need to be told more."""

RETRIED: Fragments = {
    "is_movable": "found.state in ('failed', 'cancelled')",
    "added_by_move": "cast('{}' as jsonb)",
    "gone_by_move": "array['progress', 'cancel_requested', 'found_done', 'result', 'result_dropped']",
}
CANCELLED: Fragments = {
    "is_movable": "found.state = 'queued'\n"
    "or (found.state = 'running' and (found.record -> 'cancel_requested' = 'true') is not true)",
    "added_by_move": "case\n"
    "  when found.state = 'running' then jsonb_build_object('cancel_requested', true) else '{}'\n"
    "end",
    "gone_by_move": "array['cancel_requested']",
}
"""What an operator's move depends on."""


def filled(template: str, fragments: Fragments) -> str:
    """Return a text with the fragments that it names, their lines as far in as the line that they stand on."""
    return "\n".join(indented(line.format(**fragments), _margin(line)) for line in template.split("\n"))


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _written(fragment: Fragment | None) -> str:
    return "" if fragment is None else fragment.written("param")


def _iso(moment: str) -> str:
    return f"to_char({moment} at time zone 'UTC', {literal(UTC_TEXT)})"


def _each(part: str, names: Iterable[str]) -> str:
    return ", ".join(f"{part}.{name}" for name in names)


def _as(part: str, columns: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{part}.{column} as {name}" for column, name in zip(columns, names, strict=True))


def _same(one: str, columns: Sequence[str], other: str, names: Sequence[str]) -> str:
    pairs = zip(columns, names, strict=True)
    return " and ".join(f"{one}.{here} = {other}.{there}" for here, there in pairs)


def _texts_of(values: Iterable[str]) -> str:
    return f"to_json(array[{', '.join(f'cast({each} as text)' for each in values)}])"


def _array(names: Iterable[str]) -> str:
    return f"array[{', '.join(literal(each) for each in names)}]"
