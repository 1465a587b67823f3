"""The foreign key from a sidecar table to the user's table.

If a row of the user's table is deleted, the server deletes its sidecar row. If the key changes, the sidecar row gets
the new key. Without the foreign key, a row that gets the key of a deleted row takes over the claim and the state of the
deleted row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from tenure.backends.tables.postgres.catalogue import PARTITIONED, PostgresColumn
from tenure.backends.tables.postgres.layout import INTEGER_TYPES, MIGRATE_REMEDY, Layout
from tenure.backends.tables.protocol import Finding, Severity
from tenure.core.table.spec import derive_name, quote_identifier

PURPOSE = "row"
ABOUT = "foreign key"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the foreign key cannot be created, and what to do before `migrate` can create it."""

    reason: str
    remedy: str


def existing_name(layout: Layout) -> str | None:
    """Return the name of the foreign key on the key, whatever its name and action; None if there is none.

    Without `cascade`, the server rejects the delete of a row that has a sidecar row: then no key is reused either.
    """
    sidecar = layout.catalogue.sidecar
    wanted = layout.table.oid, frozenset((name, name) for name in layout.spec.key)
    known = () if sidecar is None else sidecar.foreign_keys
    return next((each.name for each in known if (each.referenced_oid, each.columns) == wanted), None)


def pending_statements(layout: Layout) -> list[str]:
    """Return the statement that adds the foreign key; none if it exists, or if the current role cannot create it."""
    if not layout.spec.is_sidecar or existing_name(layout) is not None or any(_obstacles(layout)):
        return []
    return [f"alter table {layout.home}\n  {_add_constraint(layout)}"]


def script_statements(layout: Layout) -> list[str]:
    """Return the statement for the schema script, which also runs if the foreign key exists, and as another role."""
    if not layout.spec.is_sidecar or any(_table_obstacles(layout)):
        return []
    name = quote_identifier(_constraint_name(layout))
    return [f"alter table {layout.home}\n  drop constraint if exists {name},\n  {_add_constraint(layout)}"]


def check_foreign_key(layout: Layout) -> Iterator[Finding]:
    """Report that the foreign key is missing, and why `migrate` does not create it."""
    if layout.catalogue.sidecar is None:
        return
    if (name := existing_name(layout)) is not None:
        if layout.table.has_heirs:
            yield Finding(
                severity=Severity.ERROR,
                about=ABOUT,
                text=f"other tables inherit from {layout.table.display_name}, and the foreign key of "
                f"{layout.home_name} rejects claims of their rows",
                remedy=f"alter table {layout.home} drop constraint {quote_identifier(name)};",
            )
        return
    obstacle = next(_obstacles(layout), None)
    yield Finding(
        severity=Severity.WARNING,
        about=ABOUT,
        text=f"{layout.home_name} has no foreign key to {layout.table.display_name}, so keys must not be reused: a row "
        "that gets the key of a deleted row takes over the claim and the state of the deleted row"
        + ("" if obstacle is None else f". migrate does not create the foreign key: {obstacle.reason}"),
        remedy=f"{MIGRATE_REMEDY}{pending_statements(layout)[0]};" if obstacle is None else obstacle.remedy,
    )


def _add_constraint(layout: Layout) -> str:
    # With `not valid`, the server does not check existing sidecar rows: their rows may have been deleted long ago.
    return f"add constraint {quote_identifier(_constraint_name(layout))} {_definition(layout)} not valid"


def _definition(layout: Layout) -> str:
    names = _key_names(layout)
    references = f"foreign key ({names}) references {layout.table.quoted_name} ({names})"
    return f"{references}\n  on update cascade on delete cascade"


def _constraint_name(layout: Layout) -> str:
    digest = blake2b(_definition(layout).encode(), digest_size=4).hexdigest()
    return derive_name("tenure", layout.home_name, PURPOSE, digest)


def _key_names(layout: Layout) -> str:
    return ", ".join(quote_identifier(each) for each in layout.spec.key)


def _obstacles(layout: Layout) -> Iterator[Obstacle]:
    yield from _table_obstacles(layout)
    yield from _role_obstacles(layout)


def _table_obstacles(layout: Layout) -> Iterator[Obstacle]:
    table, sidecar, names = layout.table, layout.catalogue.sidecar, _key_names(layout)
    if table.has_heirs:
        yield Obstacle(
            f"other tables inherit from {table.display_name}, and a foreign key does not cover their rows",
            "do not reuse keys",
        )
    if table.kind == PARTITIONED:
        yield Obstacle(
            f"{table.display_name} is partitioned, and its partitions could no longer be dropped or detached freely",
            f"do not reuse keys, or add the foreign key by hand:\nalter table {layout.home} {_add_constraint(layout)};",
        )
    if not any(set(each.columns) == set(layout.spec.key) and not each.is_deferrable for each in table.keys):
        yield Obstacle(
            f"{table.display_name} has no unique index on exactly {', '.join(layout.spec.key)} that is not deferrable",
            f"create unique index concurrently on {table.quoted_name} ({names}); then run `migrate()`",
        )
    if table.is_unlogged and not (sidecar is not None and sidecar.is_unlogged):
        yield Obstacle(
            f"{table.display_name} is unlogged, and a logged table cannot reference it",
            f"alter table {layout.home} set unlogged; then run `migrate()`",
        )
    for column in layout.key:
        own = None if sidecar is None else sidecar.column(column.name)
        if own is not None and not _is_comparable(own, column):
            yield Obstacle(
                f"column {column.name!r} has type {own.type}{own.collate_clause} in {layout.home_name}, but "
                f"{column.type}{column.collate_clause} in {table.display_name}",
                f"alter table {layout.home} alter column {quote_identifier(column.name)} type {column.type}"
                f"{column.collate_clause}; then run `migrate()`",
            )
    if not table.owner_may_lock:
        owner = quote_identifier(table.owner)
        yield Obstacle(
            f"the server checks a foreign key with the rights of the owner, and owner {table.owner!r} of "
            f"{table.display_name} may not read and update its rows",
            f"grant usage on schema {quote_identifier(table.schema)} to {owner}; "
            f"grant select, update on {table.quoted_name} to {owner}; then run `migrate()`",
        )


def _role_obstacles(layout: Layout) -> Iterator[Obstacle]:
    table, sidecar, role = layout.table, layout.catalogue.sidecar, layout.catalogue.role
    if sidecar is not None and not sidecar.is_owned:
        yield Obstacle(
            f"role {role!r} does not own {layout.home_name}",
            f"run `migrate()` as the owner {sidecar.owner!r}, or let the owner run the output of `tenure sql schema`",
        )
    if not all(each.may_reference for each in layout.key):
        yield Obstacle(
            f"role {role!r} lacks REFERENCES on {table.display_name}",
            f"grant references ({_key_names(layout)}) on {table.quoted_name} to {quote_identifier(role)}; "
            "then run `migrate()`",
        )


def _is_comparable(own: PostgresColumn, referenced: PostgresColumn) -> bool:
    if own.base in INTEGER_TYPES and referenced.base in INTEGER_TYPES:
        return True
    return (own.base_oid, own.collation) == (referenced.base_oid, referenced.collation)
