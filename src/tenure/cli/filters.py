"""Command-line options to filter jobs."""

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
    """Add the filter options to a command, which receives those that the user set as `filters`."""

    @click.option("--queue", "-q", multiple=True, metavar="NAME", help="Jobs of this queue; repeatable.")
    @click.option("--type", "-t", multiple=True, metavar="NAME", help="Jobs of this type; repeatable.")
    @click.option("--state", "-s", multiple=True, type=click.Choice(STATES), help="Jobs in this state; repeatable.")
    @click.option("--error", metavar="TEXT", help="Jobs whose last error contains TEXT; case-sensitive.")
    @click.option("--since", type=duration, help="Jobs finished (or, if unfinished, enqueued) since: 10m, 1h, 7d.")
    @click.option("--worker", metavar="NAME", help="Jobs held or completed by this worker.")
    @click.option("--key", metavar="KEY", help="Jobs with this uniqueness key.")
    @click.option("--attempts-over", type=int, metavar="N", help="Jobs with more than N attempts.")
    @click.option("--due/--scheduled", default=None, help="Queued jobs that are due, or not due yet.")
    @wraps(command)
    def call(*arguments: Any, **options: Any) -> R:
        given = {name: options.pop(name) for name in Filters.__annotations__ if name in options}
        filters = {name: _as_list(value) for name, value in given.items() if value not in {None, ()}}
        return command(*arguments, filters=cast("Filters", filters), **options)

    return call


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
