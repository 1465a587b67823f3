"""Resolve the arguments of `tenure work`: several `module:object`, and an optional URL."""

from collections.abc import Sequence

from tenure.cli.store_options import import_source, with_store
from tenure.client.table import Table
from tenure.errors import ConfigurationError
from tenure.worker.sources import AnySource, all_jobs_of, resolve_sources


def import_sources(targets: Sequence[str], url: str | None) -> tuple[AnySource, ...]:
    """Import the named Jobs and Tables, in this order. A URL replaces the store of every Jobs."""
    sources = resolve_sources([import_source(target) for target in targets])
    if url is not None:
        for target, source in zip(targets, sources, strict=True):
            if isinstance(source, Table) and source._jobs is None:
                raise ConfigurationError(f"--url cannot be used with {target}: a Table has its own URL")
        for jobs in all_jobs_of(sources):
            with_store(jobs, url)
    return sources
