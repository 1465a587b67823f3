"""Parse a Redis URL and open connections to the server."""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisError
from redis.retry import Retry

from tenure.core import checks
from tenure.errors import ConfigurationError

DEFAULT_PREFIX = "tenure"
DEFAULT_TIMEOUT = 10.0
"""Seconds to wait for a connection, and for each response."""
DEFAULT_CONNECTIONS = 10
DEFAULT_HOST, DEFAULT_PORT = "localhost", 6379
GREATEST_DATABASE = 2**31 - 1

TENURE_OPTIONS = ("prefix", "timeout", "connections")
"""URL options that tenure defines; the others belong to redis-py."""
LOGIN_OPTIONS = ("username", "password", "db", "client_name")
TLS_FILE_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
TLS_OPTIONS = (*TLS_FILE_OPTIONS, "ssl_ca_path", "ssl_cert_reqs", "ssl_check_hostname", "ssl_password")

TRUE_WORDS, FALSE_WORDS = ("true", "yes", "1"), ("false", "no", "0")

KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class Node(NamedTuple):
    """A node of a cluster."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The server of a store, and the settings of its connections."""

    shown: str
    """The URL with its password masked, for messages."""
    connection_class: type[AbstractConnection]
    settings: Mapping[str, Any] = field(repr=False)
    """Keyword arguments of the connection class, including the password."""
    prefix: str = DEFAULT_PREFIX
    timeout: float = DEFAULT_TIMEOUT
    connections: int = DEFAULT_CONNECTIONS
    nodes: tuple[Node, ...] = ()
    """Cluster nodes to read the slot map from; empty without a cluster."""

    def connect(self, node: Node | None = None) -> AbstractConnection:
        """Open a new connection, to `node` if given."""
        node_settings = {} if node is None else node._asdict()
        settings = {**self.settings, **node_settings, **self._enforced_settings()}
        connection = self.connection_class(**settings)
        try:
            connection.connect()
        except BaseException as exc:
            connection.disconnect()
            if isinstance(exc, UnicodeError) and not _is_valid_hostname(settings.get("host", "")):
                raise ConnectionError(f"invalid host name {settings['host']!r}") from exc
            # The caller's credential provider may raise any exception.
            if isinstance(exc, Exception) and not isinstance(exc, RedisError | OSError):
                raise ConnectionError(f"{type(exc).__name__}: {exc}") from exc
            raise
        return connection

    def key(self, name: str) -> str:
        """Return the full name of a key or channel. The prefix is the hash tag: a store occupies one cluster slot."""
        return f"{{{self.prefix}}}:{name}"

    def _enforced_settings(self) -> dict[str, Any]:
        """Return the settings that override the caller's settings."""
        settings: dict[str, Any] = {
            "socket_timeout": self.timeout,
            "socket_connect_timeout": self.timeout,
            "decode_responses": False,
            "encoding": "utf-8",
            "protocol": 2,
            "health_check_interval": 0,
            # redis-py retries by default, including requests that are not safe to repeat.
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
        }
        if issubclass(self.connection_class, Connection):
            settings["socket_keepalive"] = True
            settings["socket_keepalive_options"] = {
                getattr(socket, name): value for name, value in KEEPALIVE_OPTIONS.items() if hasattr(socket, name)
            }
        return settings


def address_of(url: str, shown: str) -> Address:
    """Parse a URL, or raise `ConfigurationError`. `shown` is the URL without its password."""
    # An unescaped character ends the password early, and an error message would show the rest of the password.
    if re.search("[@/?#]", url.partition("://")[2].rpartition("@")[0]):
        raise ConfigurationError(
            f"invalid URL {shown!r}: write '@' as '%40', and in a password '/' as '%2F', '?' as '%3F', '#' as '%23'"
        )
    try:
        parts = urlsplit(url, allow_fragments=False)
    except ValueError:
        raise ConfigurationError(
            f"invalid URL {shown!r}: the host must be a name, or an address such as '127.0.0.1' or '[::1]'; "
            "in a password write '[' as '%5B' and ']' as '%5D'"
        ) from None
    secure = parts.scheme.startswith("rediss")
    given = _parse_options(parts.query, shown, secure=secure)
    kind, settings = (
        _unix_settings(parts, shown) if parts.scheme == "unix" else _tcp_settings(parts, shown, secure=secure)
    )
    is_cluster = parts.scheme.endswith("+cluster")
    settings |= _login_settings(parts) | {
        name: value for name, value in given.items() if name in (*LOGIN_OPTIONS, *TLS_OPTIONS)
    }
    if secure:
        settings |= _tls_settings(given)
    settings["db"] = _parse_database(settings.get("db") or "0", shown, is_cluster=is_cluster)
    return Address(
        shown=shown,
        connection_class=kind,
        settings=settings,
        prefix=require_prefix(given.get("prefix", DEFAULT_PREFIX)),
        timeout=_parse_number("timeout", given.get("timeout"), DEFAULT_TIMEOUT, 0.1, 3600.0),
        connections=_parse_integer("connections", given.get("connections"), DEFAULT_CONNECTIONS, 1, 1000),
        nodes=(Node(settings["host"], settings["port"]),) if is_cluster else (),
    )


def require_prefix(name: object) -> str:
    """Return a valid prefix, or raise. Braces are rejected: they would change the hash tag of the keys."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
        raise ConfigurationError(
            f"prefix must be 1 to 100 letters, digits, '.', '_' or '-', not {checks.short_repr(name)}"
        )
    return name


def _parse_options(query: str, shown: str, *, secure: bool) -> dict[str, str]:
    known = (*TENURE_OPTIONS, *LOGIN_OPTIONS, *TLS_OPTIONS) if secure else (*TENURE_OPTIONS, *LOGIN_OPTIONS)
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name in TLS_OPTIONS and not secure:
            raise ConfigurationError(f"{name} in {shown!r} needs TLS: begin the URL with 'rediss'")
    checks.reject_unknown(repr(shown), given, known)
    return given


def _tcp_settings(parts: SplitResult, shown: str, *, secure: bool) -> tuple[type[AbstractConnection], dict[str, Any]]:
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        raise ConfigurationError(f"invalid URL {shown!r}: the port must be a number up to 65535") from None
    settings = {"host": unquote(parts.hostname or DEFAULT_HOST), "port": port, "db": unquote(parts.path).strip("/")}
    return SSLConnection if secure else Connection, settings


def _unix_settings(parts: SplitResult, shown: str) -> tuple[type[AbstractConnection], dict[str, Any]]:
    if parts.netloc.rpartition("@")[2] or not parts.path.strip("/"):
        raise ConfigurationError(f"invalid URL {shown!r}: give the absolute path of a socket, 'unix:///run/redis.sock'")
    return UnixDomainSocketConnection, {"path": unquote(parts.path)}


def _login_settings(parts: SplitResult) -> dict[str, str]:
    given = {"username": parts.username, "password": parts.password}
    return {name: unquote(value) for name, value in given.items() if value}


def _tls_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Check the TLS options, and return those that are not plain text."""
    for name in TLS_FILE_OPTIONS:
        if name in options and not Path(options[name]).is_file():
            raise ConfigurationError(f"{name}: file {options[name]!r} not found; give the path of an existing file")
    trusted = checks.choice("ssl_cert_reqs", options.get("ssl_cert_reqs", "required"), ["required", "optional", "none"])
    # Older redis-py versions do not check the host name by default.
    default = FALSE_WORDS[0] if trusted == "none" else TRUE_WORDS[0]
    check_hostname = checks.choice(
        "ssl_check_hostname", options.get("ssl_check_hostname", default).lower(), [*TRUE_WORDS, *FALSE_WORDS]
    )
    return {"ssl_cert_reqs": trusted, "ssl_check_hostname": check_hostname in TRUE_WORDS}


def _parse_database(text: str, shown: str, *, is_cluster: bool) -> int:
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > GREATEST_DATABASE:
        raise ConfigurationError(f"invalid URL {shown!r}: the database must be a number such as 0, not {text!r}")
    if is_cluster and int(text):
        raise ConfigurationError(f"invalid URL {shown!r}: a cluster has only database 0, not {text}")
    return int(text)


def _parse_number(option: str, text: str | None, default: float, minimum: float, maximum: float) -> float:
    if text is None:
        return default
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not minimum <= float(text) <= maximum:
        raise ConfigurationError(f"{option} must be a number from {minimum:g} to {maximum:g}, not {text!r}")
    return float(text)


def _parse_integer(option: str, text: str | None, default: int, minimum: int, maximum: int) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}", text) or not minimum <= int(text) <= maximum:
        raise ConfigurationError(f"{option} must be a whole number from {minimum} to {maximum}, not {text!r}")
    return int(text)


def _is_valid_hostname(name: str) -> bool:
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True
