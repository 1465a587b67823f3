"""Classify the errors of redis-py, and translate them to tenure's errors with the store and a remedy."""

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
"""The driver's exceptions for an error code. The driver removes the code from their messages."""

CODE_PATTERN = re.compile(r"(?:^|: -?)([A-Z]{3,})\b")
"""The error code in a message. Up to Redis 6.2, the code may stand inside a message about the script."""

FORBIDDEN_IN_SCRIPT = re.compile(r"can't run this command|ACL failure")
"""Messages about a missing permission inside a script, which have no error code."""

LOGIN_FAILED = re.compile(r"WRONGPASS|invalid password|without any password")

NOT_EXECUTED_CODES = {"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK"}
"""Error codes of a server that did nothing; a retry on the same or another server may succeed."""

WRONG_SERVER_CODES = {"MOVED", "CLUSTERDOWN", "MASTERDOWN", "READONLY"}
"""Error codes of a server that does not serve the store, or may no longer do so."""

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
    """Return the error code of the server, or an empty string without a code."""
    if type(error) in CODES_BY_EXCEPTION:
        return CODES_BY_EXCEPTION[type(error)]
    if not isinstance(error, exceptions.ResponseError):
        return ""
    found = CODE_PATTERN.search(str(error))
    return found[1] if found else ""


def is_connection_lost(error: Exception) -> bool:
    """Return whether the connection and the response are lost. The server may have run the request."""
    return isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError) and not code_of(error)


def is_not_executed(error: Exception) -> bool:
    """Return whether the server reports that it did nothing, and a retry may succeed."""
    return code_of(error) in NOT_EXECUTED_CODES


def is_transient(error: Exception) -> bool:
    """Return whether a retry may succeed."""
    return is_connection_lost(error) or is_not_executed(error)


def is_wrong_server(error: Exception) -> bool:
    """Return whether the server does not serve the store, or may no longer do so."""
    return code_of(error) in WRONG_SERVER_CODES


def is_timeout(error: Exception) -> bool:
    """Return whether the server did not respond in time. It may hang while another server has taken over."""
    return isinstance(error, exceptions.TimeoutError)


def redirect_target(error: Exception, sender: Node) -> Node:
    """Return the node that a redirect names. A redirect without a host means the host that sent it."""
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return Node(host or sender.host, int(port))


def translate_error(address: Address, error: Exception, *, was_connected: bool) -> TenureError:  # noqa: C901, PLR0911 - each has its remedy
    """Return the error to raise in place of the driver's error."""
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
