"""What the server says when it cannot, in words that name the store and a remedy."""

import re

import psycopg
from psycopg import errors

from tenure.backends.postgres.address import Address
from tenure.errors import ConfigurationError, SchemaOutdated, StoreUnavailable, TenureError

FORGOTTEN = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""What is prepared is not what this connection has prepared: a pooler gave us another session."""

COLLISIONS = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation, *FORGOTTEN)
"""The server gave up this transaction for another's sake; nothing of it happened.

What is taken is looked up first, so a unique violation tells that somebody took it meanwhile.
"""

MISSING = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName, errors.UndefinedFunction)


STANDBY = errors.FeatureNotSupported
"""What a standby says to transactions that write, as all of ours do. It may be about to become the primary."""

LOST = {None, "08000", "08001", "08003", "08004", "08006", "53300", "57P01", "57P02", "57P03", "57P05"}
"""How the server says that it ends a connection, or makes none; a connection that broke has no such code."""


NOT_LET_IN = re.compile(
    r'authentication failed|no password supplied|no pg_hba.conf entry|(role|database) ".*" does not exist'
)
"""Why a connection was refused; of that the driver gives no code."""


def is_lost(error: psycopg.Error | OSError) -> bool:
    """Tell whether the connection is gone, and with it the answer, if the request ever arrived; or is to a standby."""
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate in LOST
    return isinstance(error, OSError | STANDBY)


def is_collision(error: psycopg.Error | OSError) -> bool:
    return isinstance(error, COLLISIONS)


def is_forgotten(error: psycopg.Error | OSError) -> bool:
    return isinstance(error, FORGOTTEN)


def told(address: Address, error: psycopg.Error | OSError) -> TenureError:
    """Return what is raised in place of the driver's error."""
    reason = " ".join(str(error).split())
    store = f"{address.shown!r} (schema {address.schema!r})"
    if isinstance(error, MISSING):
        return SchemaOutdated(f"{store} lacks a table or column: {reason}; run `tenure migrate`")
    if isinstance(error, errors.InsufficientPrivilege):
        return ConfigurationError(f"{store} may not be used by this role: {reason}; docs/postgres.md lists the rights")
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return StoreUnavailable(
            f"{store} took more than {address.timeout:g} s: {reason}; ask again, look for a transaction that stays "
            "open, or wait longer with '?timeout='"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction | STANDBY):
        return StoreUnavailable(f"{store} is read-only: {reason}; name the primary server")
    if NOT_LET_IN.search(reason):
        return StoreUnavailable(f"{store} does not let us in: {reason}; see user, password and database of the URL")
    return StoreUnavailable(f"{store} cannot be used: {reason}")


def all_in_use(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"all {address.connections} connections to {address.shown!r} were in use for {address.timeout:g} s; "
        "allow more with '?connections='"
    )
