"""Open a table in the database of a store or of a URL."""

from collections.abc import Callable

from tenure.backends.protocol import Backend
from tenure.backends.tables.protocol import TableStore
from tenure.backends.urls import POSTGRES_SCHEMES, mask_password, require_driver, scheme_of
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError


def table_in(store: Backend, spec: TableSpec) -> TableStore:
    """Return a table in the database of a store, using the store's connections."""
    from tenure.backends.sqlite import SQLite

    if isinstance(store, SQLite):
        from tenure.backends.tables.sqlite import SQLiteTable

        return SQLiteTable(store.database, spec)
    if type(store).__module__.startswith("tenure.backends.postgres"):
        from tenure.backends.tables.postgres import PostgresTable

        return PostgresTable(store.database, spec)  # type: ignore[attr-defined]
    raise _unsupported_store(type(store).__name__)


def table_at(url: str, spec: TableSpec) -> TableStore:
    """Return a table in the database of a URL. The database gets no job store."""
    return OPENERS.get(scheme_of(url), _reject_url)(url, spec)


def _open_sqlite(url: str, spec: TableSpec) -> TableStore:
    from tenure.backends.tables.sqlite import open_table

    return open_table(url, spec)


def _open_postgres(url: str, spec: TableSpec) -> TableStore:
    with require_driver(url, "psycopg", "postgres"):
        from tenure.backends.tables.postgres import open_table
    return open_table(url, mask_password(url), spec)


def _reject_url(url: str, spec: TableSpec) -> TableStore:  # noqa: ARG001
    raise _unsupported_store(repr(mask_password(url)))


def _unsupported_store(store: str) -> ConfigurationError:
    return ConfigurationError(
        f"{store} has no tables; give the postgresql:// or sqlite:// URL of the database that has the table"
    )


OPENERS: dict[str, Callable[[str, TableSpec], TableStore]] = {
    "sqlite": _open_sqlite,
    **dict.fromkeys(POSTGRES_SCHEMES, _open_postgres),
}
