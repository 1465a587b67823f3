"""Resolve an argument `module:object`: a Jobs and its store, or a Table."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.store_options import StoreTarget, import_source

if TYPE_CHECKING:
    from tenure.client.table import Table


def with_target(place: StoreTarget, target: str | None) -> StoreTarget:
    """Return the target with the argument as its app. Raise if --app is set as well."""
    if target is None:
        return place
    if place.app is not None:
        raise click.UsageError(f"pass either {target!r} or --app {place.app!r}, not both")
    return replace(place, app=target)


def table_of(place: StoreTarget) -> "Table[Any] | None":
    """Return the Table that --app names; None without --app, or if it names a Jobs."""
    from tenure.client.jobs import Jobs

    if place.app is None or isinstance(import_source(place.app), Jobs):
        return None
    found = place.source()
    return None if isinstance(found, Jobs) else found
