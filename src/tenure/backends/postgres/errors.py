"""What the server says when it cannot, in words that name the store and a remedy."""

import re

import psycopg
from psycopg import errors

from tenure.backends.postgres.address import Address
from tenure.errors import ConfigurationError, SchemaOutdated, StoreUnavailable, TenureError

PREPARED_STATEMENT_ERRORS = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""What is prepared is not what this connection has prepared: a pooler gave us another session."""

CONFLICT_ERRORS = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.UniqueViolation,
    *PREPARED_STATEMENT_ERRORS,
)
"""The server gave up this transaction for another's sake; nothing of it happened.

What is taken is looked up first, so a unique violation tells that somebody took it meanwhile.
"""

MISSING_OBJECT_ERRORS = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InvalidSchemaName,
    errors.UndefinedFunction,
)

MISSING_OBJECT_STATES = {each.sqlstate for each in MISSING_OBJECT_ERRORS}

STANDBY_ERROR = errors.FeatureNotSupported
"""What a standby says to transactions that write, as all of ours do. It may be about to become the primary."""

CONNECTION_LOST_STATES = {
    None,
    "08000",
    "08001",
    "08003",
    "08004",
    "08006",
    "53300",
    "57P01",
    "57P02",
    "57P03",
    "57P05",
}
"""How the server says that it ends a connection, or makes none; a connection that broke has no such code."""


LOGIN_REJECTED = re.compile(
    r'authentication failed|no password supplied|no pg_hba.conf entry|(role|database) ".*" does not exist'
)
"""Why a connection was refused; of that the driver gives no code."""


OPTIONS_REJECTED = "unsupported startup parameter"
"""How a pooler refuses what a session shall be set to; of that the driver gives no code either."""


def rejects_options(error: psycopg.Error) -> bool:
    return OPTIONS_REJECTED in str(error)


def is_connection_lost(error: psycopg.Error | OSError) -> bool:
    """Tell whether the connection is gone, and with it the answer, if the request ever arrived; or is to a standby."""
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate in CONNECTION_LOST_STATES
    return isinstance(error, OSError | STANDBY_ERROR)


def is_conflict(error: psycopg.Error | OSError) -> bool:
    return isinstance(error, CONFLICT_ERRORS)


def is_prepared_statement_error(error: psycopg.Error | OSError) -> bool:
    return isinstance(error, PREPARED_STATEMENT_ERRORS)


def translate_error(address: Address, error: psycopg.Error | OSError) -> TenureError:  # noqa: PLR0911 - one return for each remedy
    """Return what is raised in place of the driver's error."""
    reason = reason_of(error)
    store = address.display_name
    if isinstance(error, MISSING_OBJECT_ERRORS):
        return SchemaOutdated(f"{store} lacks a table or column: {reason}; run `tenure migrate`")
    if isinstance(error, errors.InsufficientPrivilege):
        where = "run `tenure doctor` to list them" if address.is_bare else "docs/postgres.md lists them"
        return ConfigurationError(f"the role lacks rights on {store}: {reason}; grant the rights ({where})")
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return StoreUnavailable(
            f"{store} took more than {address.timeout:g} s: {reason}; retry, look for a transaction that stays open, "
            "or raise '?timeout='"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction | STANDBY_ERROR):
        return StoreUnavailable(f"{store} is read-only: {reason}; use the URL of the primary server")
    if OPTIONS_REJECTED in reason:
        return ConfigurationError(
            f"the pooler in front of {store} rejects options: {reason}; remove 'options' from the URL and PGOPTIONS, "
            "and use `alter role … set`"
        )
    if LOGIN_REJECTED.search(reason):
        return StoreUnavailable(f"cannot log in to {store}: {reason}; check user, password and database in the URL")
    return StoreUnavailable(f"{store} is unavailable: {reason}")


def reason_of(error: psycopg.Error | OSError) -> str:
    """Return what the server said in one line; without its details, which may have the values of a row."""
    if isinstance(error, psycopg.Error) and error.diag.message_detail is not None:
        return error.diag.message_primary or type(error).__name__
    return " ".join(str(error).split())


def translate_caller_error(address: Address, error: Exception, missing: str | None = None) -> TenureError | None:
    """Return what is raised in place of an error on a connection of the caller's; None if that goes on as it is.

    Its driver, and perhaps a library around that, is one of several: only the code of the server is the same.
    """
    state, reason = _server_message(error)
    if state in MISSING_OBJECT_STATES:
        lacks = missing or f"connection leads to a database without a store in schema {address.schema!r}"
        return ConfigurationError(
            f"{lacks}, unlike {address.shown!r}; pass a connection to the same database: {reason}"
        )
    if state == errors.InvalidParameterValue.sqlstate:
        return ConfigurationError(f"the store rejected the request: {reason}")
    if state == errors.InsufficientPrivilege.sqlstate:
        return ConfigurationError(
            f"the role of connection lacks rights: {reason}; run `tenure sql roles` for the grants"
        )
    return None


def lost_commit_error(address: Address, error: psycopg.Error) -> StoreUnavailable:
    reason = reason_of(error)
    return StoreUnavailable(
        f"lost the connection to {address.shown!r} during the commit, which may or may not have landed: {reason}; "
        "check the state of the job"
    )


def _server_message(error: BaseException) -> tuple[str | None, str]:
    """Return the code and the first line of what the server said, of whatever library the error is.

    SQLAlchemy and Django wrap the error of a driver; what they say themselves may have the values of the statement.
    """
    state, source = None, error
    cause: BaseException | None = error
    while cause is not None:
        found = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        state, source = (str(found), cause) if found else (state, source)
        cause = getattr(cause, "orig", None) or cause.__cause__
    return state, str(source).partition("\n")[0]


def pool_exhausted_error(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"all {address.connections} connections to {address.shown!r} were in use for {address.timeout:g} s; "
        "raise '?connections='"
    )
