"""From a URL to an open store."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast, overload
from urllib.parse import parse_qsl, quote, unquote

from tenure.backends.protocol import Backend
from tenure.backends.redis_client import Client, RedisStore, given_store, is_given
from tenure.core import checks
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

DEFAULT = "sqlite:///tenure.db"

Store = str | Callable[[], str] | Backend | RedisStore | Client
"""What names a store: a URL, a function that returns one, the store itself, or a client that leads to it."""


def open_store(store: Store | None) -> Backend:
    """Open a store however it is named; None means the URL in `$TENURE_URL`, or else the file `tenure.db` here."""
    if isinstance(store, Backend):
        return store
    if is_given(store):
        given = given_store(store)
        log.info("jobs are in %s", given.shown)
        return given.open()
    url = url_of(cast("str | Callable[[], str] | None", store))
    try:
        backend = open_backend(url)
    except ConfigurationError as exc:
        if store is None and url != DEFAULT:
            exc.add_note("the URL is that of $TENURE_URL")
        raise
    log.info("jobs are in %s", masked(url))
    return backend


@overload
def url_of(store: str | Callable[[], str] | None) -> str: ...
@overload
def url_of(store: Store | None) -> str | None: ...
def url_of(store: Store | None) -> str | None:
    """Return the URL of a store however it is named; None if it is the store itself, or a client."""
    if isinstance(store, Backend) or is_given(store):
        return None
    named = cast("str | Callable[[], str] | None", store)
    return named() if callable(named) else os.environ.get("TENURE_URL") or DEFAULT if named is None else named


def is_lasting(url: str) -> bool:
    """Tell whether what is stored there is there for the next process as well."""
    return not url.startswith("memory:")


def is_shared(store: Store | None) -> bool:
    """Tell whether other processes that name the same store see what is stored there."""
    url = url_of(store)
    return is_given(store) if url is None else is_lasting(url)


def is_there(url: str) -> bool:
    """Tell whether there is a store, as far as can be told without opening it: opening makes a file."""
    if scheme_of(url) != "sqlite":
        return True
    from tenure.backends.sqlite import is_file_there

    return is_file_there(url)


def texts_of(url: str | None) -> Mapping[str, str]:
    """Return the statements that the store of a URL runs, by the names of its operations."""
    scheme = None if url is None else scheme_of(url)
    if url is None or scheme == "memory" or scheme in REDIS:
        kind = "a store of your own" if url is None else f"{masked(url)!r}"
        raise ConfigurationError(f"{kind} runs no SQL; name a store that does, such as --url sqlite:///tenure.db")
    if scheme == "sqlite":
        from tenure.backends.sqlite.printable_sql import texts

        return texts()
    with driver_told(url, "psycopg", "postgres"):
        from tenure.backends.postgres.printable_sql import texts_at
    return texts_at(url, masked(url))


def migration_of(url: str | None) -> str:
    """Return the SQL that brings the schema of a store up to date, to be run by somebody who may; empty if it is."""
    if url is None or scheme_of(url) not in POSTGRES:
        raise ConfigurationError(
            "only a PostgreSQL store can be brought up to date by hand; any other is by whoever opens it first"
        )
    with driver_told(url, "psycopg", "postgres"):
        from tenure.backends.postgres import outstanding_sql
    return outstanding_sql(url, masked(url))


def name_of(store: Store | None) -> str:
    """Return how a store is named, as it may be shown."""
    if store is None:
        return f"$TENURE_URL, or else {DEFAULT}"
    if is_given(store):
        return given_store(store).shown
    return masked(store) if isinstance(store, str) else repr(store)


def open_backend(url: str) -> Backend:
    """Open the store that the URL names; the scheme decides which backend is imported."""
    return OPENERS[scheme_of(url)](url)


def scheme_of(url: str) -> str:
    """Return the word by which a URL says what kind of store it names, or raise if there is none of this kind."""
    if not isinstance(url, str):
        raise ConfigurationError(f"a store is named by a URL such as 'sqlite:///tenure.db', not by {url!r}")
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in OPENERS:
        raise ConfigurationError(
            f"{masked(url)!r} does not name a store; a URL begins with {', '.join(f'{each}://' for each in OPENERS)}"
            + checks.nearest(scheme.partition(":")[0].lower(), OPENERS).replace("'?", "://'?")
        )
    return scheme


def masked(url: str) -> str:
    """Return the URL as it may be shown: without its password. Too much is hidden rather than too little."""
    return re.sub(r"(?i)([?&]notify=)([^&]*)", lambda found: found[1] + masked_within(found[2]), _without_password(url))


def masked_within(part: str) -> str:
    """Return a URL that is part of another, and percent-encoded there, maybe more than once, as it may be shown."""
    inner = unquote(part)
    return quote(part, safe="*") if inner == part else masked_within(_without_password(inner))


def _without_password(url: str) -> str:
    url = re.sub(r"(?i)(pass\w*=)[^&]*", r"\1***", url)
    before, at, after = url.rpartition("@")
    scheme = re.match(r"[\w+.-]*:?//?|", before)
    start = scheme.end() if scheme else 0
    user, colon, _ = before[start:].partition(":")
    return f"{before[:start]}{user}:***@{after}" if at and colon else url


def _open_memory(url: str) -> Backend:
    from tenure.backends.memory import open_memory

    name, _, options = url.removeprefix("memory://").partition("?")
    checks.refuse_unknown(repr(masked(url)), dict(parse_qsl(options, keep_blank_values=True)), ())
    if not re.fullmatch(r"[\w.-]*", name):
        raise ConfigurationError(
            f"{masked(url)!r} must be 'memory://' or 'memory://name', of letters, digits, . _ or -"
        )
    return open_memory(name)


def _open_sqlite(url: str) -> Backend:
    from tenure.backends.sqlite import open_sqlite

    return open_sqlite(url)


def _open_postgres(url: str) -> Backend:
    with driver_told(url, "psycopg", "postgres"):
        from tenure.backends.postgres import PostgreSQL
    return PostgreSQL(url, shown=masked(url))


def _open_redis(url: str) -> Backend:
    with driver_told(url, "redis", "redis"):
        from tenure.backends.redis.backend import Redis
    return Redis(url, shown=masked(url))


@contextmanager
def driver_told(url: str, driver: str, extra: str) -> Iterator[None]:
    """Name the extra that a store needs, if it is not installed."""
    try:
        yield
    except ImportError as exc:
        if exc.name is not None and exc.name.startswith("tenure"):
            raise
        raise ConfigurationError(
            f"{masked(url)!r} needs {driver}, which cannot be imported ({exc}); run `pip install 'tenure[{extra}]'`"
        ) from exc


POSTGRES = ("postgresql", "postgres")
REDIS = ("redis", "rediss", "redis+cluster", "rediss+cluster", "unix")

OPENERS: dict[str, Callable[[str], Backend]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    **dict.fromkeys(POSTGRES, _open_postgres),
    **dict.fromkeys(REDIS, _open_redis),
}
