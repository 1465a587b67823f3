"""What the server says when it cannot, in words that name the store and a remedy."""

import re

from redis import exceptions
from redis.connection import SSLConnection

from tenure.backends.redis.address import Address, Node
from tenure.errors import ConfigurationError, SchemaOutdated, StoreUnavailable, TenureError

CODES_BY_EXCEPTION: dict[type[Exception], str] = {
    exceptions.AskError: "ASK",
    exceptions.AuthenticationError: "NOAUTH",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.MovedError: "MOVED",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.TryAgainError: "TRYAGAIN",
}
"""The errors of the driver that stand for a word of the server, which is then missing in what they say."""

CODE_PATTERN = re.compile(r"(?:^|: -?)([A-Z]{3,})\b")
"""The word as the server says it; up to Redis 6.2, within what it says about the script."""

FORBIDDEN_IN_SCRIPT = re.compile(r"can't run this command|ACL failure")
"""How the server says that a script may not do something; of that it gives no word."""

LOGIN_FAILED = re.compile(r"WRONGPASS|invalid password|without any password")

NOT_EXECUTED_CODES = {"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK"}
"""How the server says that it has done nothing, but that it, or another, may soon."""

WRONG_SERVER_CODES = {"MOVED", "CLUSTERDOWN", "MASTERDOWN", "READONLY"}
"""How it says that it is not, or may no longer be, the one to ask."""

UNAVAILABLE_REASONS = {
    "OOM": "is out of memory; raise its 'maxmemory', or purge finished jobs",
    "MISCONF": "cannot write to its disk and rejects changes; see the log of the server",
    "NOREPLICAS": "has fewer replicas than its 'min-replicas-to-write'; start the missing replicas",
    "LOADING": "is still loading its data; retry",
    "BUSY": "is busy with another script; retry, or stop that script with SCRIPT KILL",
    "READONLY": "is a replica and rejects changes; use the URL of the primary",
    "MASTERDOWN": "is a replica that has lost its primary; use the URL of the primary",
    "CLUSTERDOWN": "is a cluster that does not serve all its slots; check CLUSTER INFO",
    "TRYAGAIN": "is moving the store from one node to another; retry",
}

NO_TLS_HINT = "; begin the URL with 'redis' instead of 'rediss' if the server has no TLS"
NEEDS_TLS_HINT = "; begin the URL with 'rediss' instead of 'redis' if the server needs TLS"


def code_of(error: Exception) -> str:
    """Return the word by which the server says what is wrong; empty if it said nothing, or no such word."""
    if type(error) in CODES_BY_EXCEPTION:
        return CODES_BY_EXCEPTION[type(error)]
    if not isinstance(error, exceptions.ResponseError):
        return ""
    found = CODE_PATTERN.search(str(error))
    return found[1] if found else ""


def is_connection_lost(error: Exception) -> bool:
    """Tell whether the connection is gone, and with it the answer, if the request ever arrived."""
    return isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError) and not code_of(error)


def is_not_executed(error: Exception) -> bool:
    """Tell whether the server says that it did nothing, and may do it when it is asked again."""
    return code_of(error) in NOT_EXECUTED_CODES


def is_transient(error: Exception) -> bool:
    """Tell whether it may go well when it is asked again."""
    return is_connection_lost(error) or is_not_executed(error)


def is_wrong_server(error: Exception) -> bool:
    """Tell whether the server is not, or may no longer be, the one to ask."""
    return code_of(error) in WRONG_SERVER_CODES


def is_timeout(error: Exception) -> bool:
    """Tell whether the server did not answer in time; it may hang, and another have taken over."""
    return isinstance(error, exceptions.TimeoutError)


def redirect_target(error: Exception, sender: Node) -> Node:
    """Return the node that one of a cluster names in its place; if it names only a port, that is on the same host."""
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return Node(host or sender.host, int(port))


def translate_error(address: Address, error: Exception, *, was_connected: bool) -> TenureError:  # noqa: C901, PLR0911 - each has its remedy
    """Return what is raised in place of the driver's error."""
    reason = " ".join(str(error).split()).rstrip(".")
    store = f"{address.shown!r} (prefix {address.prefix!r})"
    code = code_of(error)
    if code == "TENURELAYOUT":
        return SchemaOutdated(f"{store} was created by a newer tenure with another layout; upgrade this tenure")
    if code == "NOPERM" or FORBIDDEN_IN_SCRIPT.search(reason):
        return ConfigurationError(f"this user may not use {store}: {reason}; grant the rights listed in docs/redis.md")
    if code == "WRONGTYPE":
        return ConfigurationError(
            f"{store} has a key of another application: {reason}; choose another prefix with '?prefix='"
        )
    if code in {"MOVED", "ASK"}:
        return ConfigurationError(f"{store} is part of a cluster: {reason}; begin the URL with 'redis+cluster://'")
    if "cluster support disabled" in reason:
        return ConfigurationError(f"{store} is not a cluster: {reason}; begin the URL with 'redis://'")
    if code == "NOAUTH" or LOGIN_FAILED.search(reason):
        return StoreUnavailable(f"cannot log in to {store}: {reason}; check user and password in the URL")
    if "DB index" in reason:
        return ConfigurationError(f"{store} has no such database: {reason}; check the database number in the URL")
    if code in UNAVAILABLE_REASONS:
        return StoreUnavailable(f"{store} {UNAVAILABLE_REASONS[code]} ({reason})")
    if isinstance(error, exceptions.TimeoutError):
        return StoreUnavailable(
            f"{store} did not respond within {address.timeout:g} s: {reason}; retry, or wait longer with '?timeout='"
            + (NO_TLS_HINT if issubclass(address.connection_class, SSLConnection) and "connecting" in reason else "")
        )
    if isinstance(error, exceptions.ResponseError):
        return StoreUnavailable(f"unexpected error from {store}: {reason}; report it as a bug in tenure")
    return StoreUnavailable(f"cannot reach {store}: {reason}{_tls_hint(reason, was_connected=was_connected)}")


def pool_exhausted(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"all {address.connections} connections to {address.shown!r} were in use for {address.timeout:g} s; "
        "allow more with '?connections='"
    )


def _tls_hint(reason: str, *, was_connected: bool) -> str:
    if was_connected:
        return ""
    if "certificate is not valid for" in reason:
        return "; use a host name from the server's certificate"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "; give the certificate of the issuing authority with '?ssl_ca_certs='"
    if "SSL" in reason:
        return NO_TLS_HINT
    if "closed by server" in reason or "reset by peer" in reason:
        return NEEDS_TLS_HINT
    return ""
