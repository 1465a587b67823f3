"""From a URL to a connection."""

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

PREFIX = "tenure"
TIMEOUT = 10.0
"""Seconds that the server has for an answer, and for letting us in."""
CONNECTIONS = 10
HOST, PORT = "localhost", 6379
DATABASES = 2**31 - 1

OWN = ("prefix", "timeout", "connections")
"""The options of a URL that are ours; the others are redis-py's."""
LOGIN = ("username", "password", "db", "client_name")
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
TLS = (*FILES, "ssl_ca_path", "ssl_cert_reqs", "ssl_check_hostname", "ssl_password")

YES, NO = ("true", "yes", "1"), ("false", "no", "0")

KEEPALIVES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class Node(NamedTuple):
    """A server of a cluster."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the jobs are, and how to speak with the server."""

    shown: str
    kind: type[AbstractConnection]
    settings: Mapping[str, Any] = field(repr=False)
    """What a connection of this kind is made with; the password is among it."""
    prefix: str = PREFIX
    timeout: float = TIMEOUT
    connections: int = CONNECTIONS
    nodes: tuple[Node, ...] = ()
    """Whom to ask which server of a cluster has the store; none if it is no cluster."""

    def connect(self, node: Node | None = None) -> AbstractConnection:
        """Return a new connection, to this node if one is named."""
        there = {} if node is None else node._asdict()
        settings = {**self.settings, **there, **self._ours()}
        connection = self.kind(**settings)
        try:
            connection.connect()
        except BaseException as exc:
            connection.disconnect()
            if isinstance(exc, UnicodeError) and not _is_name_of_a_host(settings.get("host", "")):
                raise ConnectionError(f"no host can have the name {settings['host']!r}") from exc
            # A credential provider of the caller may raise anything.
            if isinstance(exc, Exception) and not isinstance(exc, RedisError | OSError):
                raise ConnectionError(f"{type(exc).__name__}: {exc}") from exc
            raise
        return connection

    def key(self, name: str) -> str:
        """Return the whole name of a key or a channel; those of one store are in one slot of a cluster."""
        return f"{{{self.prefix}}}:{name}"

    def _ours(self) -> dict[str, Any]:
        """Return what holds for every connection, whoever asked for something else."""
        settings: dict[str, Any] = {
            "socket_timeout": self.timeout,
            "socket_connect_timeout": self.timeout,
            "decode_responses": False,
            "encoding": "utf-8",
            "protocol": 2,
            "health_check_interval": 0,
            # By default the driver tries again by itself, whether or not a request may be repeated.
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
        }
        if issubclass(self.kind, Connection):
            settings["socket_keepalive"] = True
            settings["socket_keepalive_options"] = {
                getattr(socket, name): value for name, value in KEEPALIVES.items() if hasattr(socket, name)
            }
        return settings


def address_of(url: str, shown: str) -> Address:
    """Return what a URL says, or raise for what cannot be used. `shown` is the URL without its password."""
    # Else part of a password is taken for something else, and shown when that cannot be used.
    if re.search("[@/?#]", url.partition("://")[2].rpartition("@")[0]):
        raise ConfigurationError(
            f"{shown!r} cannot be used: write '@' as '%40', and in a password '/' as '%2F', '?' as '%3F', '#' as '%23'"
        )
    try:
        parts = urlsplit(url, allow_fragments=False)
    except ValueError:
        raise ConfigurationError(
            f"{shown!r} cannot be used: a host is a name, or an address such as '127.0.0.1' or '[::1]'; "
            "in a password write '[' as '%5B' and ']' as '%5D'"
        ) from None
    secure = parts.scheme.startswith("rediss")
    given = _options(parts.query, shown, secure=secure)
    kind, settings = _unix(parts, shown) if parts.scheme == "unix" else _tcp(parts, shown, secure=secure)
    is_cluster = parts.scheme.endswith("+cluster")
    settings |= _login(parts) | {name: value for name, value in given.items() if name in (*LOGIN, *TLS)}
    if secure:
        settings |= _tls(given)
    settings["db"] = _database(settings.get("db") or "0", shown, is_cluster=is_cluster)
    return Address(
        shown=shown,
        kind=kind,
        settings=settings,
        prefix=prefix_of(given.get("prefix", PREFIX)),
        timeout=_number("timeout", given.get("timeout"), TIMEOUT, 0.1, 3600.0),
        connections=_whole("connections", given.get("connections"), CONNECTIONS, 1, 1000),
        nodes=(Node(settings["host"], settings["port"]),) if is_cluster else (),
    )


def prefix_of(name: object) -> str:
    """Return a prefix that can be used: one without braces, which would mark another part of a key."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
        raise ConfigurationError(
            f"prefix must be a name of letters, digits, . _ and -, of at most 100, not {checks.shown(name)}"
        )
    return name


def _options(query: str, shown: str, *, secure: bool) -> dict[str, str]:
    known = (*OWN, *LOGIN, *TLS) if secure else (*OWN, *LOGIN)
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name in TLS and not secure:
            raise ConfigurationError(f"{shown!r} has {name}, which is for TLS; begin the URL with 'rediss'")
    checks.refuse_unknown(repr(shown), given, known)
    return given


def _tcp(parts: SplitResult, shown: str, *, secure: bool) -> tuple[type[AbstractConnection], dict[str, Any]]:
    try:
        port = PORT if parts.port is None else parts.port
    except ValueError:
        raise ConfigurationError(f"{shown!r} cannot be used: a port is a number up to 65535") from None
    settings = {"host": unquote(parts.hostname or HOST), "port": port, "db": unquote(parts.path).strip("/")}
    return SSLConnection if secure else Connection, settings


def _unix(parts: SplitResult, shown: str) -> tuple[type[AbstractConnection], dict[str, Any]]:
    if parts.netloc.rpartition("@")[2] or not parts.path.strip("/"):
        raise ConfigurationError(f"{shown!r} cannot be used: name a socket by its whole path, 'unix:///run/redis.sock'")
    return UnixDomainSocketConnection, {"path": unquote(parts.path)}


def _login(parts: SplitResult) -> dict[str, str]:
    given = {"username": parts.username, "password": parts.password}
    return {name: unquote(value) for name, value in given.items() if value}


def _tls(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options about TLS that are not just text."""
    for name in FILES:
        if name in given and not Path(given[name]).is_file():
            raise ConfigurationError(f"{name} must name a file; there is none at {given[name]!r}")
    trusted = checks.choice("ssl_cert_reqs", given.get("ssl_cert_reqs", "required"), ["required", "optional", "none"])
    # Older drivers do not look at the name by default.
    default = NO[0] if trusted == "none" else YES[0]
    said = checks.choice("ssl_check_hostname", given.get("ssl_check_hostname", default).lower(), [*YES, *NO])
    return {"ssl_cert_reqs": trusted, "ssl_check_hostname": said in YES}


def _database(text: str, shown: str, *, is_cluster: bool) -> int:
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > DATABASES:
        raise ConfigurationError(f"{shown!r} cannot be used: a database is a number, such as 0, not {text!r}")
    if is_cluster and int(text):
        raise ConfigurationError(f"{shown!r} cannot be used: a cluster has only the database 0, not {text}")
    return int(text)


def _number(option: str, text: str | None, default: float, least: float, most: float) -> float:
    if text is None:
        return default
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not least <= float(text) <= most:
        raise ConfigurationError(f"{option} must be a number from {least:g} to {most:g}, not {text!r}")
    return float(text)


def _whole(option: str, text: str | None, default: int, least: int, most: int) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
        raise ConfigurationError(f"{option} must be a whole number from {least} to {most}, not {text!r}")
    return int(text)


def _is_name_of_a_host(name: str) -> bool:
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True
