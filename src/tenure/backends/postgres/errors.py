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

MISSING_STATES = {each.sqlstate for each in MISSING}

STANDBY = errors.FeatureNotSupported
"""What a standby says to transactions that write, as all of ours do. It may be about to become the primary."""

LOST = {None, "08000", "08001", "08003", "08004", "08006", "53300", "57P01", "57P02", "57P03", "57P05"}
"""How the server says that it ends a connection, or makes none; a connection that broke has no such code."""


NOT_LET_IN = re.compile(
    r'authentication failed|no password supplied|no pg_hba.conf entry|(role|database) ".*" does not exist'
)
"""Why a connection was refused; of that the driver gives no code."""


OF_OPTIONS = "unsupported startup parameter"
"""How a pooler refuses what a session shall be set to; of that the driver gives no code either."""


def is_about_options(error: psycopg.Error) -> bool:
    return OF_OPTIONS in str(error)


def is_lost(error: psycopg.Error | OSError) -> bool:
    """Tell whether the connection is gone, and with it the answer, if the request ever arrived; or is to a standby."""
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate in LOST
    return isinstance(error, OSError | STANDBY)


def is_collision(error: psycopg.Error | OSError) -> bool:
    return isinstance(error, COLLISIONS)


def is_forgotten(error: psycopg.Error | OSError) -> bool:
    return isinstance(error, FORGOTTEN)


def told(address: Address, error: psycopg.Error | OSError) -> TenureError:  # noqa: PLR0911 - each has its remedy
    """Return what is raised in place of the driver's error."""
    reason = reason_of(error)
    store = address.told
    if isinstance(error, MISSING):
        return SchemaOutdated(f"{store} lacks a table or column: {reason}; run `tenure migrate`")
    if isinstance(error, errors.InsufficientPrivilege):
        where = "`tenure doctor` tells which are needed" if address.is_bare else "docs/postgres.md lists the rights"
        return ConfigurationError(f"{store} may not be used by this role: {reason}; {where}")
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return StoreUnavailable(
            f"{store} took more than {address.timeout:g} s: {reason}; ask again, look for a transaction that stays "
            "open, or wait longer with '?timeout='"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction | STANDBY):
        return StoreUnavailable(f"{store} is read-only: {reason}; name the primary server")
    if OF_OPTIONS in reason:
        return ConfigurationError(
            f"{store} is behind a pooler that takes no options: {reason}; take 'options' out of the URL and PGOPTIONS, "
            "and use `alter role … set`"
        )
    if NOT_LET_IN.search(reason):
        return StoreUnavailable(f"{store} does not let us in: {reason}; see user, password and database of the URL")
    return StoreUnavailable(f"{store} cannot be used: {reason}")


def reason_of(error: psycopg.Error | OSError) -> str:
    """Return what the server said in one line; without its details, which may have the values of a row."""
    if isinstance(error, psycopg.Error) and error.diag.message_detail is not None:
        return error.diag.message_primary or type(error).__name__
    return " ".join(str(error).split())


def of_the_caller(address: Address, error: Exception, lacking: str | None = None) -> TenureError | None:
    """Return what is raised in place of an error on a connection of the caller's; None if that goes on as it is.

    Its driver, and perhaps a library around that, is one of several: only the code of the server is the same.
    """
    state, reason = _told_by_the_server(error)
    if state in MISSING_STATES:
        lacks = lacking or f"connection leads to a database that has no store in the schema {address.schema!r}"
        return ConfigurationError(
            f"{lacks}, unlike {address.shown!r}; one transaction can only hold both if they are in one database: "
            f"{reason}"
        )
    if state == errors.InvalidParameterValue.sqlstate:
        return ConfigurationError(f"the store refuses this: {reason}")
    if state == errors.InsufficientPrivilege.sqlstate:
        return ConfigurationError(
            f"the role of connection may not do this: {reason}; `tenure sql roles` prints what it needs"
        )
    return None


def unanswered_commit(address: Address, error: psycopg.Error) -> StoreUnavailable:
    reason = reason_of(error)
    return StoreUnavailable(
        f"{address.shown!r} did not answer to the commit, which may have landed or not: {reason}; look what became of "
        "the job"
    )


def _told_by_the_server(error: BaseException) -> tuple[str | None, str]:
    """Return the code and the first line of what the server said, of whatever library the error is.

    SQLAlchemy and Django wrap the error of a driver; what they say themselves may have the values of the statement.
    """
    state, said = None, error
    cause: BaseException | None = error
    while cause is not None:
        found = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        state, said = (str(found), cause) if found else (state, said)
        cause = getattr(cause, "orig", None) or cause.__cause__
    return state, str(said).partition("\n")[0]


def all_in_use(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"all {address.connections} connections to {address.shown!r} were in use for {address.timeout:g} s; "
        "allow more with '?connections='"
    )
