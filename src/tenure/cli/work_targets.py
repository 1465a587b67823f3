"""What a worker is to work for, as a command line names it: several `module:object`, and perhaps another store."""

from collections.abc import Sequence

from tenure.cli.store_options import found_in, placed_in
from tenure.client.table import Table
from tenure.errors import ConfigurationError
from tenure.worker.sources import AnySource, homes_of, sources_of


def sources_in(targets: Sequence[str], url: str | None) -> tuple[AnySource, ...]:
    """Import the Jobs and tables that are named, in this order; with a URL, every Jobs among them has that store."""
    sources = sources_of([found_in(target) for target in targets])
    if url is not None:
        for target, source in zip(targets, sources, strict=True):
            if isinstance(source, Table) and source._home is None:
                raise ConfigurationError(f"{target!r} is a table, and is where its own URL says; leave out --url")
        for home in homes_of(sources):
            placed_in(home, url)
    return sources
