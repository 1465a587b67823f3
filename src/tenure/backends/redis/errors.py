"""What the server says when it cannot, in words that name the store and a remedy."""

import re

from redis import exceptions
from redis.connection import SSLConnection

from tenure.backends.redis.address import Address, Node
from tenure.errors import ConfigurationError, SchemaOutdated, StoreUnavailable, TenureError

CODES: dict[type[Exception], str] = {
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

WORD = re.compile(r"(?:^|: -?)([A-Z]{3,})\b")
"""The word as the server says it; up to Redis 6.2, within what it says about the script."""

NOT_ALLOWED = re.compile(r"can't run this command|ACL failure")
"""How the server says that a script may not do something; of that it gives no word."""

REFUSED_LOGIN = re.compile(r"WRONGPASS|invalid password|without any password")

NOT_YET = {"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK"}
"""How the server says that it has done nothing, but that it, or another, may soon."""

ELSEWHERE = {"MOVED", "CLUSTERDOWN", "MASTERDOWN", "READONLY"}
"""How it says that it is not, or may no longer be, the one to ask."""

NOT_KEPT = {
    "OOM": "has no memory left; raise its 'maxmemory', or purge what is finished",
    "MISCONF": "cannot write to its disk, and so takes no changes; see the log of the server",
    "NOREPLICAS": "has fewer replicas than its 'min-replicas-to-write'; bring them back",
    "LOADING": "is still loading what it has kept; ask again",
    "BUSY": "is busy with a script of somebody; ask again, or end that with SCRIPT KILL",
    "READONLY": "is a replica, which takes no changes; name the primary server",
    "MASTERDOWN": "is a replica that has lost its primary; name the primary server",
    "CLUSTERDOWN": "is a cluster that does not serve all its slots; see CLUSTER INFO",
    "TRYAGAIN": "is moving the store from one node to another; ask again",
}

NO_TLS = "; begin the URL with 'redis' in place of 'rediss' if the server has no TLS"
WANTS_TLS = "; begin the URL with 'rediss' in place of 'redis' if the server wants TLS"


def code_of(error: Exception) -> str:
    """Return the word by which the server says what is wrong; empty if it said nothing, or no such word."""
    if type(error) in CODES:
        return CODES[type(error)]
    if not isinstance(error, exceptions.ResponseError):
        return ""
    found = WORD.search(str(error))
    return found[1] if found else ""


def is_lost(error: Exception) -> bool:
    """Tell whether the connection is gone, and with it the answer, if the request ever arrived."""
    return isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError) and not code_of(error)


def is_undone(error: Exception) -> bool:
    """Tell whether the server says that it did nothing, and may do it when it is asked again."""
    return code_of(error) in NOT_YET


def is_passing(error: Exception) -> bool:
    """Tell whether it may go well when it is asked again."""
    return is_lost(error) or is_undone(error)


def is_elsewhere(error: Exception) -> bool:
    """Tell whether the server is not, or may no longer be, the one to ask."""
    return code_of(error) in ELSEWHERE


def is_silent(error: Exception) -> bool:
    """Tell whether the server did not answer in time; it may hang, and another have taken over."""
    return isinstance(error, exceptions.TimeoutError)


def named_node(error: Exception, asked: Node) -> Node:
    """Return the node that one of a cluster names in its place; if it names only a port, that is on the same host."""
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return Node(host or asked.host, int(port))


def told(address: Address, error: Exception, *, was_let_in: bool) -> TenureError:  # noqa: C901, PLR0911 - each has its remedy
    """Return what is raised in place of the driver's error."""
    reason = " ".join(str(error).split()).rstrip(".")
    store = f"{address.shown!r} (prefix {address.prefix!r})"
    code = code_of(error)
    if code == "TENURELAYOUT":
        return SchemaOutdated(f"{store} was made by a newer tenure, which keeps jobs in another way; upgrade this one")
    if code == "NOPERM" or NOT_ALLOWED.search(reason):
        return ConfigurationError(f"{store} may not be used by this user: {reason}; docs/redis.md lists the rights")
    if code == "WRONGTYPE":
        return ConfigurationError(
            f"{store} has a key that is not tenure's: {reason}; choose another prefix with '?prefix='"
        )
    if code in {"MOVED", "ASK"}:
        return ConfigurationError(f"{store} is part of a cluster: {reason}; begin the URL with 'redis+cluster://'")
    if "cluster support disabled" in reason:
        return ConfigurationError(f"{store} is no cluster: {reason}; begin the URL with 'redis://'")
    if code == "NOAUTH" or REFUSED_LOGIN.search(reason):
        return StoreUnavailable(f"{store} does not let us in: {reason}; see user and password of the URL")
    if "DB index" in reason:
        return ConfigurationError(f"{store} has no such database: {reason}; see the number in the URL")
    if code in NOT_KEPT:
        return StoreUnavailable(f"{store} {NOT_KEPT[code]} ({reason})")
    if isinstance(error, exceptions.TimeoutError):
        return StoreUnavailable(
            f"{store} did not answer within {address.timeout:g} s: {reason}; ask again, or wait longer with '?timeout='"
            + (NO_TLS if issubclass(address.kind, SSLConnection) and "connecting" in reason else "")
        )
    if isinstance(error, exceptions.ResponseError):
        return StoreUnavailable(f"{store} refused what tenure asked, which should not happen: {reason}")
    return StoreUnavailable(f"{store} cannot be reached: {reason}{_of_tls(reason, was_let_in=was_let_in)}")


def all_in_use(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"all {address.connections} connections to {address.shown!r} were in use for {address.timeout:g} s; "
        "allow more with '?connections='"
    )


def _of_tls(reason: str, *, was_let_in: bool) -> str:
    if was_let_in:
        return ""
    if "certificate is not valid for" in reason:
        return "; name the server as its certificate does"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "; name the authority that signed its certificate with '?ssl_ca_certs='"
    if "SSL" in reason:
        return NO_TLS
    if "closed by server" in reason or "reset by peer" in reason:
        return WANTS_TLS
    return ""
