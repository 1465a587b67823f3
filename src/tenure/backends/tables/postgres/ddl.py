"""DDL for a user's table: role columns, or a sidecar table with its foreign key; and indexes.

`migrate` creates missing objects and never changes existing ones. An added column has a constant default, so the server
rewrites no rows. Indexes are built concurrently, so other sessions read and write meanwhile. The name of an index
contains a digest of its definition: an index with another definition gets another name and does not replace the first.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from tenure.backends.tables.equality_columns import equal_columns
from tenure.backends.tables.postgres import foreign_key
from tenure.backends.tables.postgres.catalogue import PARTITIONED, PostgresColumn, PostgresRelation
from tenure.backends.tables.postgres.layout import TYPO_CUTOFF, Layout, RoleColumn, quote_literal
from tenure.core.job import State
from tenure.core.table.spec import Role, derive_name, quote_identifier
from tenure.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """An index for the operations. `purpose` is a word; `definition` is the columns and the condition."""

    purpose: str
    schema: str
    table: str
    definition: str
    is_concurrent: bool
    """Whether to build the index concurrently; the server cannot do so for a partitioned table."""
    is_unique: bool = False

    @property
    def name(self) -> str:
        definition_text = f"{self.table} {self.is_unique} {self.definition}"
        return derive_name(
            "tenure", self.table, self.purpose, blake2b(definition_text.encode(), digest_size=4).hexdigest()
        )

    @property
    def quoted_table(self) -> str:
        """The quoted name of the indexed table."""
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.table)}"

    @property
    def create_statement(self) -> str:
        kind = "unique index" if self.is_unique else "index"
        concurrently = " concurrently" if self.is_concurrent else ""
        return (
            f"create {kind}{concurrently} if not exists {quote_identifier(self.name)}\n  on {self.quoted_table} "
            f"{self.definition}"
        )

    @property
    def drop_statement(self) -> str:
        concurrently = " concurrently" if self.is_concurrent else ""
        return f"drop index{concurrently} if exists {quote_identifier(self.schema)}.{quote_identifier(self.name)}"


class ExecutionMode(StrEnum):
    """How to run a statement."""

    LOCKING = "locking"
    """In a transaction; takes a lock that blocks other sessions."""
    CONCURRENT = "concurrent"
    """Outside a transaction; blocks no other session."""
    BATCHED = "rows"
    """The statement runs in batches of rows, each batch in its own transaction."""


@dataclass(frozen=True, slots=True)
class Change:
    """Statements to run, and how. Several statements run in one transaction.

    `cleanup` removes the leftovers if the data violates a constraint. `batch_statement` changes one batch of rows.
    """

    statements: tuple[str, ...]
    mode: ExecutionMode = ExecutionMode.LOCKING
    cleanup: str | None = None
    batch_statement: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingIndexes:
    """The names of the existing indexes; an interrupted build leaves a broken index."""

    valid: frozenset[str] = frozenset()
    invalid: frozenset[str] = frozenset()


def pending_changes(layout: Layout, output: PostgresRelation | None, existing: ExistingIndexes) -> list[Change]:
    """Return the changes that create missing objects, in the order to run them."""
    statements = [*add_label_statements(layout), *add_column_statements(layout, layout.missing)]
    pending = [Change((each,)) for each in statements]
    if sidecar_statements := _pending_sidecar_statements(layout):
        pending.append(Change(tuple(sidecar_statements)))
    for index in required_indexes(layout, output):
        mode = ExecutionMode.CONCURRENT if index.is_concurrent else ExecutionMode.LOCKING
        if index.name in existing.invalid:
            pending.append(Change((index.drop_statement,), mode))
        if index.name not in existing.valid:
            pending.append(Change((index.create_statement,), mode, cleanup=index.drop_statement))
    return pending


def schema_script(layout: Layout, output: PostgresRelation | None) -> str:
    """Return a script that creates all objects if they do not exist, to run by hand."""
    added = [part for part in layout.role_columns.values() if layout.is_added(part.role) or part.column is None]
    statements = [*add_label_statements(layout, is_all=True)]
    if layout.spec.is_sidecar:
        statements += [layout.create_sidecar_statement(), *foreign_key.script_statements(layout)]
    else:
        statements += add_column_statements(layout, added)
    statements += [index.create_statement for index in required_indexes(layout, output)]
    head = (
        f"-- Schema of {layout.table.display_name}, as `migrate` creates it. Run outside a transaction: see "
        "`concurrently`."
    )
    return "\n\n".join([head, *(f"{each};" for each in statements)]) + "\n"


def add_label_statements(layout: Layout, *, is_all: bool = False) -> list[str]:
    """Return the statements that add missing labels to the enum of the state column."""
    column = layout.role_columns[Role.STATE].column
    if column is None or not column.labels:
        return []
    words = {
        state: str(word) for state, word in layout.spec.state_values.items() if is_all or word not in column.labels
    }
    _reject_typo(
        column, words, unused=[each for each in column.labels if each not in layout.spec.state_values.values()]
    )
    return [f"alter type {column.base} add value if not exists {quote_literal(word)}" for word in words.values()]


def add_column_statements(layout: Layout, added: Sequence[RoleColumn]) -> list[str]:
    """Return one statement for all columns, so that the table is locked once."""
    return [layout.add_columns_statement(added)] if added else []


def required_indexes(layout: Layout, output: PostgresRelation | None) -> list[IndexSpec]:
    """Return the indexes for the operations; `output` is the output table, if the user named one."""
    found = [
        IndexSpec(
            purpose=what,
            schema=layout.table.schema,
            table=layout.home_name,
            definition=form,
            is_concurrent=layout.spec.is_sidecar or layout.table.kind != PARTITIONED,
        )
        for what, form in _index_definitions(layout)
    ]
    columns = layout.spec.output.columns if layout.spec.output is not None else ()
    if output is not None and not _is_already_unique(output, columns):
        names = [quote_identifier(each) for each in columns]
        condition = " and ".join(f"{name} is not null" for name in names)
        form = _index_definition(names, condition)
        found.append(
            IndexSpec(
                purpose="output",
                schema=output.schema,
                table=output.name,
                definition=form,
                is_concurrent=output.kind != PARTITIONED,
                is_unique=True,
            )
        )
    return found


def adoption_change(layout: Layout, seconds: float, batch: int) -> Change:
    """Return the change that gives a lease to running rows without one, one batch of unlocked rows per transaction."""
    leased, started = layout.role_columns[Role.LEASED_UNTIL], layout.role_columns[Role.STARTED_AT]
    began = (
        f"{quote_identifier(started.name)} at time zone 'UTC'" if started.is_local else quote_identifier(started.name)
    )
    until = f"coalesce({began}, statement_timestamp()) + interval '{seconds:.6f} seconds'"
    until = f"({until}) at time zone 'UTC'" if leased.is_local else until
    runs = f"{_state_is(layout, State.RUNNING)} and {quote_identifier(leased.name)} is null"
    whole = f"update {layout.home}\nset {quote_identifier(leased.name)} = {until}\nwhere {runs}"
    key = ", ".join(quote_identifier(each.name) for each in layout.key)
    some = f"select {key} from {layout.home} where {runs} limit {batch} for no key update skip locked"  # noqa: S608
    return Change((whole,), ExecutionMode.BATCHED, batch_statement=f"{whole} and ({key}) in ({some})")


def adoption_check(layout: Layout) -> str | None:
    """Return the query that checks for running rows without a lease; None if the table has no state column yet."""
    leased, state = layout.role_columns[Role.LEASED_UNTIL], layout.role_columns[Role.STATE]
    if state.column is None:
        return None
    without = "" if leased.column is None else f" and {quote_identifier(leased.name)} is null"
    return f"select exists (select from {layout.home} where {_state_is(layout, State.RUNNING)}{without})"  # noqa: S608


def _pending_sidecar_statements(layout: Layout) -> list[str]:
    """Return the statements for the sidecar table and its foreign key, to run in one transaction.

    Between two transactions, a claimed row could be deleted, and its sidecar row would stay.
    """
    is_missing = layout.spec.is_sidecar and layout.catalogue.sidecar is None
    return [*([layout.create_sidecar_statement()] if is_missing else []), *foreign_key.pending_statements(layout)]


def _index_definitions(layout: Layout) -> Iterator[tuple[str, str]]:
    key = [quote_identifier(each.name) for each in layout.key]
    order = [
        _sort_item(quote_identifier(each.name), is_descending=item_order.is_descending)
        for each, item_order in layout.order
    ]
    ordered = {each.name for each, _ in layout.order}
    order += [quote_identifier(each.name) for each in layout.key if each.name not in ordered]
    state = quote_identifier(layout.role_columns[Role.STATE].name)
    ended = f"{state} in ({layout.state_literals[State.FAILED]}, {layout.state_literals[State.CANCELLED]})"
    if layout.spec.is_sidecar:
        # The columns that decide the claim order are in the user's table, and a sidecar adds no index there.
        yield "failed", _index_definition([state, *key], ended)
    else:
        named = {each.name for each in layout.table.columns}
        fixed = [quote_identifier(each) for each in equal_columns(layout.spec.where) if each in named]
        first = layout.role_columns.get(Role.PRIORITY)
        priority = [] if first is None else [_sort_item(quote_identifier(first.name), is_descending=True)]
        yield "claim", _index_definition([*fixed, *priority, *order], _state_is(layout, State.QUEUED))
        yield "failed", _index_definition([state, *order], ended)
    leased_until, token = (quote_identifier(layout.role_columns[role].name) for role in (Role.LEASED_UNTIL, Role.TOKEN))
    yield "leases", _index_definition([leased_until, *key], _state_is(layout, State.RUNNING))
    yield "tokens", _index_definition([token], _state_is(layout, State.RUNNING))
    record = quote_identifier(layout.role_columns[Role.RECORD].name)
    yield "found_done", _index_definition([f"({record} ->> 'found_done')"], f"{record} ->> 'found_done' is not null")


def _index_definition(columns: Collection[str], condition: str) -> str:
    return f"({', '.join(dict.fromkeys(columns))})\n  where {condition}"


def _state_is(layout: Layout, state: State) -> str:
    return f"{quote_identifier(layout.role_columns[Role.STATE].name)} = {layout.state_literals[state]}"


def _sort_item(name: str, *, is_descending: bool) -> str:
    return f"{name} desc nulls last" if is_descending else name


def _reject_typo(column: PostgresColumn, values: Mapping[State, str], unused: Sequence[str]) -> None:
    """Raise for a label that looks like a typo of an unused one: PostgreSQL cannot remove a label once added."""
    for state, word in values.items():
        if word not in column.labels and (near := difflib.get_close_matches(word, unused, n=1, cutoff=TYPO_CUTOFF)):
            raise ConfigurationError(
                f"enum {column.base} has no label {word!r}, but {near[0]!r}; "
                f"if that label means {state}, pass states={{{state.value!r}: {near[0]!r}}}"
            )


def _is_already_unique(output: PostgresRelation, columns: Sequence[str]) -> bool:
    return any(set(key.columns) <= set(columns) for key in output.keys)
