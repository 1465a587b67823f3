"""Parse store URLs and open connections."""

import os
import re
import socket
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tenure.backends.postgres.guarded_connection import AsyncGuardedConnection, GuardedConnection
from tenure.backends.postgres.settings import SETTINGS_MARKER, session_settings
from tenure.backends.urls import mask_nested, mask_password
from tenure.core import checks
from tenure.errors import ConfigurationError

DEFAULT_SCHEMA = "tenure"
DEFAULT_TIMEOUT = 10.0
"""Default limit, in seconds, for one operation and for connecting."""
DEFAULT_CONNECTIONS = 10

Migrate = Literal["auto", "never"]
TENURE_OPTIONS = ("schema", "migrate", "timeout", "connections", "notify")
"""URL options that tenure handles; libpq gets all others."""

KEEPALIVES = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A parsed store URL: server, schema and connection options."""

    url: str = field(repr=False)
    shown: str
    """The URL with its password masked, for messages."""
    schema: str = DEFAULT_SCHEMA
    migrate: Migrate = "auto"
    timeout: float = DEFAULT_TIMEOUT
    connections: int = DEFAULT_CONNECTIONS
    notify: "Address | None" = None
    """Separate server for LISTEN, if any: a pooler does not forward notifications."""
    is_bare: bool = False
    """Whether only the user's own tables are used; the schema of a store is not required then."""

    @property
    def display_name(self) -> str:
        """The name of the store in error messages."""
        return repr(self.shown) if self.is_bare else f"{self.shown!r} (schema {self.schema!r})"

    @property
    def grace(self) -> float:
        """Seconds that the client waits beyond the server's own timeout."""
        return min(2.0, self.timeout)

    def connect(self, *, apply_settings: bool = True) -> psycopg.Connection[Any]:
        """Return a new connection. With `apply_settings`, our session settings replace the server's defaults."""
        given = {**_environment_options(), **conninfo_to_dict(self.url)}
        options = f"{self._options()} {given.get('options') or ''}"
        conninfo = self._conninfo(options=options) if apply_settings else self._conninfo()
        connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def connect_for_caller(self) -> GuardedConnection:
        """Return a new connection for the caller's own statements, with the server's default settings."""
        return GuardedConnection.connect(self._conninfo(), prepare_threshold=None)

    async def connect_async(self) -> AsyncGuardedConnection:
        """Return a new connection for the caller's own statements on the running event loop."""
        return await AsyncGuardedConnection.connect(self._conninfo(), prepare_threshold=None)

    def _options(self) -> str:
        settings = {**session_settings(self.timeout), SETTINGS_MARKER: SETTINGS_MARKER}
        return " ".join(f"-c {name}={_escape_option(value)}" for name, value in settings.items())

    def _conninfo(self, **own: str) -> str:
        given = {**_environment_options(), **conninfo_to_dict(self.url)}
        defaults: dict[str, str | int] = {
            "connect_timeout": max(2, round(self.timeout)),
            "fallback_application_name": f"tenure {socket.gethostname()}:{os.getpid()}",
            "tcp_user_timeout": round(1000 * (self.timeout + self.grace)),
            **KEEPALIVES,
        }
        unset = {name: value for name, value in defaults.items() if name not in given}
        return make_conninfo(self.url, **unset, **own, client_encoding="UTF8")


def address_of(url: str, shown: str) -> Address:
    """Parse a store URL. `shown` is the URL without its password, for error messages."""
    libpq, own = _split_url(url, shown)
    migrate = checks.choice("migrate", own.get("migrate", "auto"), ["auto", "never"])
    timeout = _parse_number("timeout", own.get("timeout"), DEFAULT_TIMEOUT, 0.1, 3600.0)
    return Address(
        url=libpq,
        shown=shown,
        schema=_parse_schema(own.get("schema", DEFAULT_SCHEMA)),
        migrate="never" if migrate == "never" else "auto",
        timeout=timeout,
        connections=int(_parse_number("connections", own.get("connections"), DEFAULT_CONNECTIONS, 1, 1000)),
        notify=_parse_notify(own["notify"], timeout) if "notify" in own else None,
    )


def _parse_notify(url: str, timeout: float) -> Address:
    """Parse the `notify` option, the URL of the server for LISTEN."""
    shown = unquote(mask_nested(mask_password(url)))
    if not re.match("postgres(ql)?://", url):
        raise ConfigurationError(
            f"notify must be the URL of a PostgreSQL server, percent-encoded: 'postgresql%3A%2F%2F…', not {shown!r}"
        )
    libpq, own = _split_url(url, shown)
    if own:
        raise ConfigurationError(
            f"notify URL {shown!r} must not contain {', '.join(own)}: put these options in the store's own URL"
        )
    return Address(url=libpq, shown=shown, timeout=timeout)


def _split_url(url: str, shown: str) -> tuple[str, dict[str, str]]:
    """Split a URL into the part for libpq and tenure's own options."""
    where, _, query = url.partition("?")
    # libpq would take the rest of the password for the host name, and print it when the lookup fails.
    if re.search("[/@]", where.partition("://")[2].rpartition("@")[0]):
        raise ConfigurationError(f"invalid URL {shown!r}: write '@' as '%40', and '/' in a password as '%2F'")
    parts = [part for part in query.split("&") if part]
    own = dict(
        parse_qsl("&".join(part for part in parts if _option_name(part) in TENURE_OPTIONS), keep_blank_values=True)
    )
    rest = "&".join(part for part in parts if _option_name(part) not in TENURE_OPTIONS)
    libpq = f"{where}?{rest}" if rest else where
    try:
        conninfo_to_dict(libpq)
    except psycopg.ProgrammingError as exc:
        reason = str(exc).strip()
        raise ConfigurationError(
            f"invalid URL {shown!r}: {_mask_reason(reason, shown)}{_suggest_option(reason)}"
        ) from None
    return libpq, own


def _environment_options() -> dict[str, str]:
    """Return the connection options set by libpq's environment variables."""
    return {each.keyword.decode(): each.val.decode() for each in pq.Conninfo.get_defaults() if each.val}


def _escape_option(value: str) -> str:
    """Escape a setting's value for the `options` of a connection string."""
    return re.sub(r"([\\ ])", r"\\\1", value)


def _option_name(part: str) -> str:
    return part.partition("=")[0]


def _mask_reason(reason: str, shown: str) -> str:
    """Mask quoted text in a libpq error unless `shown` contains the text: the quote may be the password."""
    return re.sub('"(.*)"', lambda found: found[0] if found[1] in shown else '"***"', reason)


def _suggest_option(reason: str) -> str:
    found = re.search(r'query parameter: "(.*)"', reason)
    return (
        f"; tenure's own options are {', '.join(TENURE_OPTIONS)}" + checks.did_you_mean(found[1], TENURE_OPTIONS)
        if found
        else ""
    )


def _parse_schema(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name) or name.startswith("pg_"):
        raise ConfigurationError(
            f"schema must be 1 to 63 lower-case letters, digits or _, not {checks.short_repr(name)}"
        )
    return name


def _parse_number(option: str, text: str | None, default: float, least: float, most: float) -> float:
    if text is None:
        return default
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not least <= float(text) <= most:
        raise ConfigurationError(f"{option} must be a number from {least:g} to {most:g}, not {text!r}")
    return float(text)
