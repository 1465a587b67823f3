"""Generate the SQL for the database roles of a store."""

from collections.abc import Iterable
from importlib.resources import files

from tenure.backends.postgres import functions
from tenure.backends.postgres.statements import quote_name
from tenure.errors import ConfigurationError

ROLES = ("producer", "worker", "reader", "library")

TABLES = ("jobs", "finished", "history", "lanes", "paused", "counts", "workers", "schedules")
READ_ONLY_RELATIONS = ("versions", "store", "overview")
"""Relations that only migrations change."""

FOR_PRODUCERS = ("enqueue", "enqueue_many", "store")

LONGEST_ROLE_NAME = 63
"""Maximum bytes of a name. The server truncates longer names, so two roles could become the same."""


def script(schema: str) -> str:
    """Return the SQL that creates the roles of a schema, named after the schema, and grants their rights."""
    roles = {role: f"{schema}_{role}" for role in ROLES}
    longest = max(roles.values(), key=len)
    if len(longest) > LONGEST_ROLE_NAME:
        raise ConfigurationError(
            f"schema name {schema!r} is too long for roles named after it, such as {longest!r}; use a name of at most "
            f"{LONGEST_ROLE_NAME - len(longest) + len(schema)} characters"
        )
    for_workers = [name for name in functions.public_names() if name not in FOR_PRODUCERS]
    return (
        files(__package__)
        .joinpath("schema", "roles.sql")
        .read_text("utf-8")
        .format(
            schema=quote_name(schema),
            **roles,
            for_producers=_qualified_list(schema, _with_versions(FOR_PRODUCERS)),
            for_workers=_qualified_list(schema, _with_versions(for_workers)),
            tables=_qualified_list(schema, TABLES),
            read_only=_qualified_list(schema, READ_ONLY_RELATIONS),
        )
    )


def _with_versions(names: Iterable[str]) -> list[str]:
    return [each for name in names for each in (name, f"{name}{functions.VERSION_SUFFIX}")]


def _qualified_list(schema: str, names: Iterable[str]) -> str:
    return ",\n  ".join(f"{quote_name(schema)}.{name}" for name in names)
