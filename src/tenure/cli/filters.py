"""The options by which jobs are chosen, and what the library calls them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from tenure.cli.param_types import duration
from tenure.core.filters import Filters
from tenure.core.job import State

R = TypeVar("R")

STATES = [each.value for each in State]


def with_filters(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that choose jobs; it gets them as `filters`, only those that were given."""

    @click.option("--queue", "-q", multiple=True, metavar="NAME", help="Of this queue; may be given several times.")
    @click.option("--type", "-t", multiple=True, metavar="NAME", help="Of this type; may be given several times.")
    @click.option("--state", "-s", multiple=True, type=click.Choice(STATES), help="In this state; the same.")
    @click.option("--error", metavar="TEXT", help="With this in their last error; case counts.")
    @click.option("--since", type=duration, help="Finished, or if not enqueued, that recently: 10m, 1h, 7d.")
    @click.option("--worker", metavar="NAME", help="Held by this worker, or completed by it.")
    @click.option("--key", metavar="KEY", help="With this uniqueness key.")
    @click.option("--attempts-over", type=int, metavar="N", help="With more attempts than that.")
    @click.option("--due/--scheduled", default=None, help="Queued, and due; or not due yet.")
    @wraps(command)
    def call(*arguments: Any, **options: Any) -> R:
        given = {name: options.pop(name) for name in Filters.__annotations__ if name in options}
        filters = {name: _plain(value) for name, value in given.items() if value not in {None, ()}}
        return command(*arguments, filters=cast("Filters", filters), **options)

    return call


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
