"""Open the store that a URL names."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast, overload
from urllib.parse import parse_qsl, quote, unquote

from tenure.backends.protocol import Backend
from tenure.backends.redis_client import RedisClient, RedisStore, as_redis_store, is_redis_store
from tenure.core import checks
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

DEFAULT_URL = "sqlite:///tenure.db"

Store = str | Callable[[], str] | Backend | RedisStore | RedisClient
"""A store: a URL, a function that returns a URL, the store itself, or a Redis client."""


def open_store(store: Store | None) -> Backend:
    """Open a store. None means the URL in `$TENURE_URL`, or the file `tenure.db` in the working directory."""
    if isinstance(store, Backend):
        return store
    if is_redis_store(store):
        given = as_redis_store(store)
        log.info("store: %s", given.shown)
        return given.open()
    url = url_of(cast("str | Callable[[], str] | None", store))
    try:
        backend = open_backend(url)
    except ConfigurationError as exc:
        if store is None and url != DEFAULT_URL:
            exc.add_note("the URL comes from $TENURE_URL")
        raise
    log.info("store: %s", mask_password(url))
    return backend


@overload
def url_of(store: str | Callable[[], str] | None) -> str: ...
@overload
def url_of(store: Store | None) -> str | None: ...
def url_of(store: Store | None) -> str | None:
    """Return the URL of a store; None if the store is given as a `Backend` or a client."""
    if isinstance(store, Backend) or is_redis_store(store):
        return None
    named = cast("str | Callable[[], str] | None", store)
    return named() if callable(named) else os.environ.get("TENURE_URL") or DEFAULT_URL if named is None else named


def is_persistent(url: str) -> bool:
    """Return whether the jobs of this store outlive the process."""
    return not url.startswith("memory:")


def is_shared(store: Store | None) -> bool:
    """Return whether processes that name the same store share its jobs."""
    url = url_of(store)
    return is_redis_store(store) if url is None else is_persistent(url)


def store_exists(url: str) -> bool:
    """Return whether the store exists, without opening it: opening would create a SQLite file."""
    if scheme_of(url) != "sqlite":
        return True
    from tenure.backends.sqlite import file_exists

    return file_exists(url)


def printable_sql_of(url: str | None) -> Mapping[str, str]:
    """Return the SQL statements of a store by operation."""
    scheme = None if url is None else scheme_of(url)
    if url is None or scheme == "memory" or scheme in REDIS_SCHEMES:
        kind = "this store" if url is None else f"{mask_password(url)!r}"
        raise ConfigurationError(f"{kind} does not use SQL; name a store that does, such as --url sqlite:///tenure.db")
    if scheme == "sqlite":
        from tenure.backends.sqlite.printable_sql import printable_sql

        return printable_sql()
    with require_driver(url, "psycopg", "postgres"):
        from tenure.backends.postgres.printable_sql import sql_at
    return sql_at(url, mask_password(url))


def migration_sql(url: str | None) -> str:
    """Return the SQL that migrates the schema of a store, for a privileged role to run; empty if it is current."""
    if url is None or scheme_of(url) not in POSTGRES_SCHEMES:
        raise ConfigurationError(
            "only a PostgreSQL store can be migrated by hand; other stores migrate when they are first opened"
        )
    with require_driver(url, "psycopg", "postgres"):
        from tenure.backends.postgres import outstanding_sql
    return outstanding_sql(url, mask_password(url))


def display_name(store: Store | None) -> str:
    """Return the name of a store for messages, with the password masked."""
    if store is None:
        return f"$TENURE_URL, or {DEFAULT_URL} if it is not set"
    if is_redis_store(store):
        return as_redis_store(store).shown
    return mask_password(store) if isinstance(store, str) else repr(store)


def open_backend(url: str) -> Backend:
    """Open the store that the URL names, and import only the backend of its scheme."""
    return OPENERS[scheme_of(url)](url)


def scheme_of(url: str) -> str:
    """Return the scheme of a URL; raise `ConfigurationError` if it is unknown."""
    if not isinstance(url, str):
        raise ConfigurationError(f"store must be a URL such as 'sqlite:///tenure.db', not {url!r}")
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in OPENERS:
        raise ConfigurationError(
            f"{mask_password(url)!r} is not a store URL; begin it with {', '.join(f'{each}://' for each in OPENERS)}"
            + checks.did_you_mean(scheme.partition(":")[0].lower(), OPENERS).replace("'?", "://'?")
        )
    return scheme


def mask_password(url: str) -> str:
    """Return the URL with its password masked. In doubt, mask too much rather than too little."""
    return re.sub(r"(?i)([?&]notify=)([^&]*)", lambda found: found[1] + mask_nested(found[2]), _replace_password(url))


def mask_nested(part: str) -> str:
    """Mask the password of a URL that is percent-encoded, perhaps repeatedly, as an option of a URL."""
    inner = unquote(part)
    return quote(part, safe="*") if inner == part else mask_nested(_replace_password(inner))


def _replace_password(url: str) -> str:
    url = re.sub(r"(?i)(pass\w*=)[^&]*", r"\1***", url)
    before, at, after = url.rpartition("@")
    scheme = re.match(r"[\w+.-]*:?//?|", before)
    start = scheme.end() if scheme else 0
    user, colon, _ = before[start:].partition(":")
    return f"{before[:start]}{user}:***@{after}" if at and colon else url


def _open_memory(url: str) -> Backend:
    from tenure.backends.memory import open_memory

    name, _, options = url.removeprefix("memory://").partition("?")
    checks.reject_unknown(repr(mask_password(url)), dict(parse_qsl(options, keep_blank_values=True)), ())
    if not re.fullmatch(r"[\w.-]*", name):
        raise ConfigurationError(
            f"invalid URL {mask_password(url)!r}: use 'memory://' or 'memory://name', with letters, digits, '.', "
            "'_' and '-'"
        )
    return open_memory(name)


def _open_sqlite(url: str) -> Backend:
    from tenure.backends.sqlite import open_sqlite

    return open_sqlite(url)


def _open_postgres(url: str) -> Backend:
    with require_driver(url, "psycopg", "postgres"):
        from tenure.backends.postgres import PostgreSQL
    return PostgreSQL(url, shown=mask_password(url))


def _open_redis(url: str) -> Backend:
    with require_driver(url, "redis", "redis"):
        from tenure.backends.redis.backend import Redis
    return Redis(url, shown=mask_password(url))


@contextmanager
def require_driver(url: str, driver: str, extra: str) -> Iterator[None]:
    """If the driver is not installed, raise an error that names the extra to install."""
    try:
        yield
    except ImportError as exc:
        if exc.name is not None and exc.name.startswith("tenure"):
            raise
        raise ConfigurationError(
            f"{mask_password(url)!r} needs {driver}, which cannot be imported ({exc}). Run `pip install "
            f"'tenure[{extra}]'`"
        ) from exc


POSTGRES_SCHEMES = ("postgresql", "postgres")
REDIS_SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster", "unix")

OPENERS: dict[str, Callable[[str], Backend]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    **dict.fromkeys(POSTGRES_SCHEMES, _open_postgres),
    **dict.fromkeys(REDIS_SCHEMES, _open_redis),
}
