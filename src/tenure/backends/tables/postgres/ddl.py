"""What is made beside what the user has: columns for the roles that none plays, or a companion, and indexes.

Only what is missing is made, and nothing that is there is changed. A column that is added has a constant default, so
that no row is written for it; an index is built concurrently, so that others read and write meanwhile. The name of an
index tells its form: one of another form has another name, and is made beside it.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from tenure.backends.tables.equality_columns import equal_columns
from tenure.backends.tables.postgres.catalogue import PARTITIONED, Column, Relation
from tenure.backends.tables.postgres.layout import NEAR, Layout, Part, literal
from tenure.core.job import State
from tenure.core.table.spec import Role, made_name, quoted
from tenure.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index that operations go by. `what` is what it is for, in a word; `form` its columns and condition."""

    what: str
    schema: str
    table: str
    form: str
    is_concurrent: bool
    """Whether it is built while others write; of a partitioned table the server cannot."""
    is_unique: bool = False

    @property
    def name(self) -> str:
        told = f"{self.table} {self.is_unique} {self.form}"
        return made_name("tenure", self.table, self.what, blake2b(told.encode(), digest_size=4).hexdigest())

    @property
    def place(self) -> str:
        """The table that it is on, as it stands in a statement."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def made(self) -> str:
        kind = "unique index" if self.is_unique else "index"
        way = " concurrently" if self.is_concurrent else ""
        return f"create {kind}{way} if not exists {quoted(self.name)}\n  on {self.place} {self.form}"

    @property
    def dropped(self) -> str:
        way = " concurrently" if self.is_concurrent else ""
        return f"drop index{way} if exists {quoted(self.schema)}.{quoted(self.name)}"


class Way(StrEnum):
    """How a statement is run."""

    LOCKING = "locking"
    """In a transaction, and with a lock that others wait for."""
    CONCURRENT = "concurrent"
    """Outside a transaction; nobody waits for it."""
    ROWS = "rows"
    """Row by row, some in a transaction."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done, and how. Several statements are done together or not at all.

    `undoing` removes what is left of it when it fails for what the rows have. `in_part` does it for some rows.
    """

    statements: tuple[str, ...]
    way: Way = Way.LOCKING
    undoing: str | None = None
    in_part: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Which indexes are there, by their names; those that are broken were left by a build that was interrupted."""

    sound: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()


def changes(layout: Layout, output: Relation | None, present: Present) -> list[Change]:
    """Return what makes that which is missing, in the order in which it can be done."""
    made = [*labels_added(layout), *columns_added(layout, layout.missing)]
    if layout.spec.is_sidecar and layout.catalogue.companion is None:
        made.append(layout.companion_made())
    found = [Change((each,)) for each in made]
    for index in indexes(layout, output):
        way = Way.CONCURRENT if index.is_concurrent else Way.LOCKING
        if index.name in present.broken:
            found.append(Change((index.dropped,), way))
        if index.name not in present.sound:
            found.append(Change((index.made,), way, undoing=index.dropped))
    return found


def script(layout: Layout, output: Relation | None) -> str:
    """Return all that is made, whether it is there or not, as one text to be run by hand."""
    added = [part for part in layout.parts.values() if layout.is_ours(part.role) or part.column is None]
    made = [*labels_added(layout, is_all=True)]
    made += [layout.companion_made()] if layout.spec.is_sidecar else columns_added(layout, added)
    made += [index.made for index in indexes(layout, output)]
    head = f"-- What `migrate` makes for {layout.table.shown}; not in one transaction: indexes are built concurrently."
    return "\n\n".join([head, *(f"{each};" for each in made)]) + "\n"


def labels_added(layout: Layout, *, is_all: bool = False) -> list[str]:
    """Return what adds our words to the enum of the state."""
    column = layout.parts[Role.STATE].column
    if column is None or not column.labels:
        return []
    words = {state: str(word) for state, word in layout.spec.words.items() if is_all or word not in column.labels}
    _refuse_slip(column, words, free=[each for each in column.labels if each not in layout.spec.words.values()])
    return [f"alter type {column.base} add value if not exists {literal(word)}" for word in words.values()]


def columns_added(layout: Layout, added: Sequence[Part]) -> list[str]:
    """Return one statement for all columns: the table is locked once."""
    return [layout.adding(added)] if added else []


def indexes(layout: Layout, output: Relation | None) -> list[Index]:
    """Return the indexes that the operations go by; `output` is the table of the output, if that is named."""
    found = [
        Index(
            what=what,
            schema=layout.table.schema,
            table=layout.home_name,
            form=form,
            is_concurrent=layout.spec.is_sidecar or layout.table.kind != PARTITIONED,
        )
        for what, form in _forms(layout)
    ]
    columns = layout.spec.output.columns if layout.spec.output is not None else ()
    if output is not None and not _is_unique_without_us(output, columns):
        names = [quoted(each) for each in columns]
        condition = " and ".join(f"{name} is not null" for name in names)
        form = _form(names, condition)
        found.append(
            Index(
                what="output",
                schema=output.schema,
                table=output.name,
                form=form,
                is_concurrent=output.kind != PARTITIONED,
                is_unique=True,
            )
        )
    return found


def adoption(layout: Layout, seconds: float, most: int) -> Change:
    """Return what gives a lease to rows that run without one; so many at a time, of those that nobody has locked."""
    leased, started = layout.parts[Role.LEASED_UNTIL], layout.parts[Role.STARTED_AT]
    began = f"{quoted(started.name)} at time zone 'UTC'" if started.is_local else quoted(started.name)
    until = f"coalesce({began}, statement_timestamp()) + interval '{seconds:.6f} seconds'"
    until = f"({until}) at time zone 'UTC'" if leased.is_local else until
    runs = f"{_is(layout, State.RUNNING)} and {quoted(leased.name)} is null"
    whole = f"update {layout.home}\nset {quoted(leased.name)} = {until}\nwhere {runs}"
    key = ", ".join(quoted(each.name) for each in layout.key)
    some = f"select {key} from {layout.home} where {runs} limit {most} for no key update skip locked"  # noqa: S608
    return Change((whole,), Way.ROWS, in_part=f"{whole} and ({key}) in ({some})")


def rows_to_adopt(layout: Layout) -> str | None:
    """Return what tells whether there are any; None if that can be told from the columns that are there."""
    leased, state = layout.parts[Role.LEASED_UNTIL], layout.parts[Role.STATE]
    if state.column is None:
        return None
    without = "" if leased.column is None else f" and {quoted(leased.name)} is null"
    return f"select exists (select from {layout.home} where {_is(layout, State.RUNNING)}{without})"  # noqa: S608


def _forms(layout: Layout) -> Iterator[tuple[str, str]]:
    key = [quoted(each.name) for each in layout.key]
    order = [_ordered(quoted(each.name), is_descending=told.is_descending) for each, told in layout.order]
    ordered = {each.name for each, _ in layout.order}
    order += [quoted(each.name) for each in layout.key if each.name not in ordered]
    state = quoted(layout.parts[Role.STATE].name)
    ended = f"{state} in ({layout.words[State.FAILED]}, {layout.words[State.CANCELLED]})"
    if layout.spec.is_sidecar:
        # Which rows come first is for the user's table to tell, and that is left as it is.
        yield "failed", _form([state, *key], ended)
    else:
        named = {each.name for each in layout.table.columns}
        fixed = [quoted(each) for each in equal_columns(layout.spec.where) if each in named]
        first = layout.parts.get(Role.PRIORITY)
        priority = [] if first is None else [_ordered(quoted(first.name), is_descending=True)]
        yield "claim", _form([*fixed, *priority, *order], _is(layout, State.QUEUED))
        yield "failed", _form([state, *order], ended)
    yield "leases", _form([quoted(layout.parts[Role.LEASED_UNTIL].name), *key], _is(layout, State.RUNNING))
    yield "tokens", _form([quoted(layout.parts[Role.TOKEN].name)], _is(layout, State.RUNNING))
    record = quoted(layout.parts[Role.RECORD].name)
    yield "found_done", _form([f"({record} ->> 'found_done')"], f"{record} ->> 'found_done' is not null")


def _form(columns: Collection[str], condition: str) -> str:
    return f"({', '.join(dict.fromkeys(columns))})\n  where {condition}"


def _is(layout: Layout, state: State) -> str:
    return f"{quoted(layout.parts[Role.STATE].name)} = {layout.words[state]}"


def _ordered(name: str, *, is_descending: bool) -> str:
    return f"{name} desc nulls last" if is_descending else name


def _refuse_slip(column: Column, words: Mapping[State, str], free: Sequence[str]) -> None:
    """Raise for a label that is very near to one that no state has: a label that was added stays for ever."""
    for state, word in words.items():
        if word not in column.labels and (near := difflib.get_close_matches(word, free, n=1, cutoff=NEAR)):
            raise ConfigurationError(
                f"the enum {column.base} has no label {word!r}, but {near[0]!r}; "
                f"if that means {state}, say states={{{state.value!r}: {near[0]!r}}}"
            )


def _is_unique_without_us(output: Relation, columns: Sequence[str]) -> bool:
    return any(set(key.columns) <= set(columns) for key in output.keys)
