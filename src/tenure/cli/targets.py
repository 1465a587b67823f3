"""Resolve an argument `module:object`: a Jobs and its store, or a Table."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.store_options import StoreTarget, import_source

if TYPE_CHECKING:
    from tenure.client.table import Table


def with_target(store_target: StoreTarget, target: str | None) -> StoreTarget:
    """Return the target with the argument as its app. Raise if --app is set as well."""
    if target is None:
        return store_target
    if store_target.app is not None:
        raise click.UsageError(f"pass either {target!r} or --app {store_target.app!r}, not both")
    return replace(store_target, app=target)


def table_of(store_target: StoreTarget) -> "Table[Any] | None":
    """Return the Table that --app names; None without --app, or if it names a Jobs."""
    from tenure.client.jobs import Jobs

    if store_target.app is None or isinstance(import_source(store_target.app), Jobs):
        return None
    found = store_target.source()
    return None if isinstance(found, Jobs) else found
