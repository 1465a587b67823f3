"""What is amiss with the columns of a table, and keeps it from use or is to be known; each with its remedy."""

from collections.abc import Iterator

from tenure.backends.tables.postgres.catalogue import PARTITIONED, Column
from tenure.backends.tables.postgres.layout import (
    BY_MIGRATE,
    EMPTIED,
    KEY_TYPES,
    LENGTHS,
    NO_TABLES,
    PLAYED_BY,
    TEXTS,
    WHOLE,
    Layout,
    Part,
    literal,
)
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.core import checks
from tenure.core.job import State
from tenure.core.table.spec import READ_BESIDE, Role, quoted
from tenure.errors import ConfigurationError


def findings_of(layout: Layout) -> list[Finding]:
    """Return what is amiss, the gravest first; raise for a column that is named and cannot be there."""
    if layout.table.kind in NO_TABLES:
        what = NO_TABLES[layout.table.kind]
        return [_error("table", f"it is {what}", "name the table whose rows are to be claimed")]
    _refuse_what_nothing_adds(layout)
    found = [*_about_the_table(layout), *_about_the_key(layout), *_about_the_parts(layout)]
    return sorted(found, key=lambda each: list(Gravity).index(each.gravity))


def refuse(layout: Layout) -> None:
    """Raise for the first thing that keeps rows from being claimed."""
    for each in findings_of(layout):
        if each.gravity is Gravity.ERROR:
            remedy = "" if each.remedy is None else f"; {each.remedy}"
            raise ConfigurationError(f"{layout.table.shown}: {each.text}{remedy}")


def _about_the_table(layout: Layout) -> Iterator[Finding]:
    if layout.table.has_heirs:
        yield _warning(
            "table",
            "tables inherit from it: their rows are claimed with it, and no index keeps two from having one key",
            "use partitions, or see to it that no key is there twice",
        )
    if layout.table.kind == PARTITIONED:
        yield _note("table", "it is partitioned: its indexes cannot be built concurrently")
    if layout.spec.is_sidecar and layout.catalogue.companion is None:
        yield _error(
            "companion", f"there is no companion table {layout.home_name!r}", _migrate(layout.companion_made())
        )


def _about_the_key(layout: Layout) -> Iterator[Finding]:
    for column in layout.key:
        if column.base not in KEY_TYPES:
            yield _error(
                f"column {column.name}",
                f"the key {column.name!r} is of the type {column.type}",
                f"name a key of the type {', '.join(KEY_TYPES)}",
            )
        if layout.spec.is_sidecar and column.name in set(Role):
            yield _error(
                f"column {column.name}",
                f"the key {column.name!r} has a name that the companion needs for itself",
                "rename the column, or leave out sidecar=True",
            )
    if not layout.table.has_key(layout.spec.key):
        names = ", ".join(quoted(each) for each in layout.spec.key)
        yield _error(
            "key",
            f"no unique index says that two rows cannot have the same {', '.join(layout.spec.key)}",
            f"create unique index concurrently on {layout.table.place} ({names})",
        )


def _about_the_parts(layout: Layout) -> Iterator[Finding]:
    if missing := layout.missing:
        names = ", ".join(repr(part.name) for part in missing)
        is_one = len(missing) == 1
        about, what = (f"column {missing[0].name}", "is no column") if is_one else ("columns", "are no columns")
        yield _error(about, f"there {what} {names}", _migrate(layout.adding(missing)))
    for part in layout.parts.values():
        if part.column is not None:
            yield from _about_the_column(layout, part, part.column)


def _about_the_column(layout: Layout, part: Part, column: Column) -> Iterator[Finding]:
    about, what = f"column {column.name}", f"the column {column.name!r}, which plays {part.role},"
    is_written = part.role not in READ_BESIDE
    if part.role is Role.STATE:
        yield from _about_the_state(layout, about, what, column)
    elif column.base not in PLAYED_BY[part.role]:
        wanted = " or ".join(PLAYED_BY[part.role])
        yield _error(about, f"{what} is of the type {column.type}, and has to be {wanted}", _other_column(part))
    if is_written and (column.is_generated or column.is_identity):
        yield _error(about, f"{what} has values that the server makes", _other_column(part))
    if part.role in EMPTIED and not column.is_nullable:
        yield _error(
            about,
            f"{what} is not null, and has no value at times",
            f"alter table {_place_of(layout, part.role)} alter column {quoted(column.name)} drop not null;",
        )
    if part.is_local:
        yield _warning(
            about,
            f"{what} has moments without a time zone; they are read and written as UTC",
            f"alter table {_place_of(layout, part.role)} alter column {quoted(column.name)} type timestamptz "
            f"using {quoted(column.name)} at time zone 'UTC'",
        )
    if column.longest is not None and column.longest < LENGTHS.get(part.role, 0):
        yield _warning(
            about,
            f"{what} takes no more than {column.longest} characters, and may get {LENGTHS[part.role]}",
            f"alter table {_place_of(layout, part.role)} alter column {quoted(column.name)} type text",
        )


def _about_the_state(layout: Layout, about: str, what: str, column: Column) -> Iterator[Finding]:
    words = layout.spec.words
    is_whole = isinstance(words[State.QUEUED], int)
    if column.labels and column.type_oid != column.base_oid:
        yield _error(
            about,
            f"{what} is of the domain {column.type}, and the server compares only the enum beneath",
            f"alter table {_place_of(layout, Role.STATE)} alter column {quoted(column.name)} type {column.base}",
        )
    elif column.labels and is_whole:
        yield _error(about, f"{what} is of the enum {column.type}, and states are numbers", "name labels of it")
    elif column.labels:
        for word in words.values():
            if word not in column.labels:
                yield _error(
                    about,
                    f"the enum {column.base} has no label {word!r}{checks.nearest(word, column.labels)}",
                    _migrate(f"alter type {column.base} add value if not exists {literal(str(word))}"),
                )
    elif column.base not in (WHOLE if is_whole else (*TEXTS, "bpchar")):
        told = "states are numbers" if is_whole else "states are texts"
        yield _error(about, f"{what} is of the type {column.type}, and {told}", "name other words, or a column")
    for word in words.values():
        if column.longest is not None and len(str(word)) > column.longest:
            yield _error(about, f"{what} is too short for {word!r}", "name a shorter word")


def _place_of(layout: Layout, role: Role) -> str:
    return layout.table.place if layout.relation_of(role) is layout.table else layout.home


def _refuse_what_nothing_adds(layout: Layout) -> None:
    """Raise for a column that is not there, and is not one that plays a role."""
    added = {part.name for part in layout.missing}
    for each in layout.spec.order_by:
        if each.column not in added:
            layout.named("order_by", each.column)
    for column in layout.on_retry:
        _refuse_role_on_retry(layout, column)


def _refuse_role_on_retry(layout: Layout, column: Column) -> None:
    for part in layout.parts.values():
        is_set = part.role is not Role.ERROR and part.role not in READ_BESIDE
        if part.name == column.name and is_set and layout.relation_of(part.role) is layout.table:
            raise ConfigurationError(
                f"on_retry has {part.name!r}, which plays {part.role}: a retry sets it anyway; leave it out"
            )


def _error(about: str, text: str, remedy: str | None = None) -> Finding:
    return Finding(gravity=Gravity.ERROR, about=about, text=text, remedy=remedy)


def _warning(about: str, text: str, remedy: str | None = None) -> Finding:
    return Finding(gravity=Gravity.WARNING, about=about, text=text, remedy=remedy)


def _note(about: str, text: str) -> Finding:
    return Finding(gravity=Gravity.NOTE, about=about, text=text)


def _migrate(statement: str) -> str:
    return f"{BY_MIGRATE}{statement};"


def _other_column(part: Part) -> str:
    return f"name another column: columns={{{part.role.value!r}: …}}"
