"""The roles of a store: who may do what."""

from collections.abc import Iterable
from importlib.resources import files

from tenure.backends.postgres import functions
from tenure.backends.postgres.statements import quoted
from tenure.errors import ConfigurationError

ROLES = ("producer", "worker", "reader", "library")

TABLES = ("jobs", "finished", "history", "lanes", "paused", "counts", "workers", "schedules")
KNOWN = ("versions", "store", "overview")
"""What nobody changes who does not migrate."""

FOR_PRODUCERS = ("enqueue", "enqueue_many", "store")

LONGEST = 63
"""Bytes of a name; the server would cut what is longer, and two roles be one."""


def script(schema: str) -> str:
    """Return what makes the roles of a schema, named after it, and grants them their rights."""
    roles = {role: f"{schema}_{role}" for role in ROLES}
    longest = max(roles.values(), key=len)
    if len(longest) > LONGEST:
        raise ConfigurationError(
            f"the schema {schema!r} has too long a name for roles of its own, such as {longest!r}; use one of at most "
            f"{LONGEST - len(longest) + len(schema)} characters"
        )
    for_workers = [name for name in functions.names() if name not in FOR_PRODUCERS]
    return (
        files(__package__)
        .joinpath("schema", "roles.sql")
        .read_text("utf-8")
        .format(
            schema=quoted(schema),
            **roles,
            for_producers=_listed(schema, _with_versions(FOR_PRODUCERS)),
            for_workers=_listed(schema, _with_versions(for_workers)),
            tables=_listed(schema, TABLES),
            known=_listed(schema, KNOWN),
        )
    )


def _with_versions(names: Iterable[str]) -> list[str]:
    return [each for name in names for each in (name, f"{name}{functions.VERSION}")]


def _listed(schema: str, names: Iterable[str]) -> str:
    return ",\n  ".join(f"{quoted(schema)}.{name}" for name in names)
