"""What a command is about when it takes `module:object`: a Jobs and its store, or a table."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.store_options import Place, found_in

if TYPE_CHECKING:
    from tenure.client.table import Table


def placed(place: Place, target: str | None) -> Place:
    """Return the place that an argument names, if there is one; --app says the same."""
    if target is None:
        return place
    if place.app is not None:
        raise click.UsageError(f"{target!r} and --app {place.app!r} are two; name one")
    return replace(place, app=target)


def table_of(place: Place) -> "Table[Any] | None":
    """Return the table that a place names; None if it is no table."""
    from tenure.client.jobs import Jobs

    if place.app is None or isinstance(found_in(place.app), Jobs):
        return None
    found = place.source()
    return None if isinstance(found, Jobs) else found
