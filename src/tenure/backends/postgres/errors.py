"""Translate driver errors into errors that name the store and a remedy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from tenure.backends.postgres.address import Address
from tenure.backends.postgres.pipeline import ResponseTimeout
from tenure.backends.shared.isolation import StatementRejected
from tenure.errors import ConfigurationError, SchemaOutdated, StoreUnavailable, TenureError

PREPARED_STATEMENT_ERRORS = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""A prepared statement is missing or already exists: a pooler gave us another session."""

CONFLICT_ERRORS = (errors.DeadlockDetected, errors.SerializationFailure, *PREPARED_STATEMENT_ERRORS)
"""The server aborted the transaction because of a concurrent one; it had no effect."""

SERVER_ERROR_CLASSES = ("08", "25", "28", "3D", "40", "53", "55006", "55P03", "57", "58", "F0")
"""SQLSTATE classes of connections, logins, conflicts, resources and operators: they do not concern a single row."""

INVALID_STATEMENT_CLASSES = ("0A", "2F", "39", "3F", "42", "55", "XX")
"""SQLSTATE classes of errors that do not depend on the values in the row: syntax, missing objects, unsupported
features, invalid functions, objects in the wrong state, damaged data."""

SERVER_ONLY_CLASSES = ("40", "55P03", "57")
"""The classes among `SERVER_ERROR_CLASSES` that concern the server even if a function raises the error: conflicts, lock
timeouts, cancelled statements."""

OTHER_SERVER_CLASSES = ("08", "28", "3D", "58P01", "F0")
"""The classes among `SERVER_ERROR_CLASSES` that an installed SQL function gets only from a trigger or a condition, for
example about another server or a file: this server is running the function."""

TOO_LARGE_ERRORS = (errors.ProgramLimitExceeded, errors.OutOfMemory)
"""The response is too large: the server builds it as one text of at most 1 GiB."""

MISSING_OBJECT_ERRORS = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InvalidSchemaName,
    errors.UndefinedFunction,
)

MISSING_OBJECT_STATES = {each.sqlstate for each in MISSING_OBJECT_ERRORS}

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
"""SQLSTATEs of a closed or refused connection; None is a connection that broke."""


LOGIN_REJECTED = re.compile(
    r'authentication failed|no password supplied|no pg_hba.conf entry|(role|database) ".*" does not exist'
)
"""Messages of a rejected login; the driver reports no SQLSTATE for them."""


OPTIONS_REJECTED = "unsupported startup parameter"
"""Message of a pooler that rejects session settings; the driver reports no SQLSTATE for it."""


def rejects_options(error: psycopg.Error) -> bool:
    return OPTIONS_REJECTED in str(error)


def is_standby_error(error: psycopg.Error | OSError) -> bool:
    """Return whether a standby rejected our `begin … read write`. A failover may make the server the primary.

    A statement may raise the same error about a row, but not while the server checks a setting.
    """
    return isinstance(error, errors.FeatureNotSupported) and error.diag.source_function == "call_bool_check_hook"


def is_raised_by_function(error: psycopg.Error) -> bool:
    """Return whether a trigger or function raised an error of a class that otherwise concerns the whole server.

    For example, a trigger cannot connect to another server, or `done_if` reads a missing file. An error of a trigger
    has a context. An error of a built-in function has none, so `UndefinedFile` is found by its class.
    """
    return (
        error.sqlstate is not None
        and error.sqlstate.startswith(SERVER_ERROR_CLASSES)
        and not error.sqlstate.startswith(SERVER_ONLY_CLASSES)
        and (error.diag.context is not None or isinstance(error, errors.UndefinedFile))
    )


def is_connection_lost(error: psycopg.Error | OSError) -> bool:
    """Return whether the connection is lost, so that the outcome of the request is unknown, or leads to a standby."""
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate in CONNECTION_LOST_STATES and not is_raised_by_function(error)
    return isinstance(error, OSError) or is_standby_error(error)


def is_conflict(error: psycopg.Error | OSError, *, is_unique_checked: bool) -> bool:
    """Return whether a concurrent transaction caused the error.

    With `is_unique_checked`, the operation looks for existing ids and keys first: a unique violation then means that a
    concurrent transaction was faster.
    """
    return isinstance(error, CONFLICT_ERRORS) or (is_unique_checked and isinstance(error, errors.UniqueViolation))


def is_too_large(error: TenureError) -> bool:
    """Return whether the server could not build the response because it is too large."""
    cause = error.__cause__
    # An error that names a table or comes from a trigger is about a row: for example, a text is too long for an index.
    return isinstance(cause, TOO_LARGE_ERRORS) and cause.diag.table_name is None and cause.diag.context is None


def is_lock_timeout(error: TenureError) -> bool:
    """Return whether another transaction held a lock for too long."""
    return isinstance(error.__cause__, errors.LockNotAvailable)


def is_conflict_of_row(error: TenureError) -> bool:
    """Return whether a statement conflicted with another transaction again and again at one of its rows."""
    cause = error.__cause__
    return isinstance(cause, errors.DeadlockDetected | errors.SerializationFailure) and cause.diag.context is not None


def is_statement_timeout(error: TenureError) -> bool:
    """Return whether the server cancelled a statement that took too long; nothing changed."""
    return isinstance(error.__cause__, errors.QueryCanceled)


def is_timeout(error: TenureError) -> bool:
    """Return whether the server did not respond in time."""
    return isinstance(error.__cause__, errors.QueryCanceled | ResponseTimeout)


@contextmanager
def rejections_raised(hint: str, *, ignores_invalid: bool = False) -> Iterator[None]:
    """Raise `StatementRejected` if the server rejected a statement or one of its rows, and will reject it again."""
    try:
        yield
    except TenureError as exc:
        cause = exc.__cause__
        if not isinstance(cause, psycopg.Error) or cause.sqlstate is None or is_standby_error(cause):
            raise
        is_raised = is_raised_by_function(cause)
        is_invalid = is_raised or cause.sqlstate.startswith(INVALID_STATEMENT_CLASSES)
        if (is_invalid and ignores_invalid) or (cause.sqlstate.startswith(SERVER_ERROR_CLASSES) and not is_raised):
            raise
        # A right that a trigger or policy of the table lacks for one row must not cost the other rows anything.
        is_denied = isinstance(cause, errors.InsufficientPrivilege)
        raise StatementRejected(
            str(exc) if is_denied else f"the server rejected a statement: {reason_of(cause)}; {hint}",
            reason=cause.diag.message_primary or reason_of(cause),
            is_invalid=is_invalid,
        ) from cause


def is_prepared_statement_error(error: psycopg.Error | OSError) -> bool:
    return isinstance(error, PREPARED_STATEMENT_ERRORS)


def translate_error(address: Address, error: psycopg.Error | OSError) -> TenureError:  # noqa: PLR0911 - one return for each remedy
    """Return the tenure error to raise for a driver error."""
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
    if isinstance(error, errors.ReadOnlySqlTransaction) or is_standby_error(error):
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
    """Return the server's message in one line, without the detail, which may contain values of a row."""
    if isinstance(error, psycopg.Error) and error.diag.message_detail is not None:
        return error.diag.message_primary or type(error).__name__
    return " ".join(str(error).split())


def translate_caller_error(address: Address, error: Exception, missing: str | None = None) -> TenureError | None:
    """Return the tenure error for an error on the caller's connection, or None if the error should pass unchanged.

    The connection may use any driver, possibly wrapped by a library: only the SQLSTATE is common to all.
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
    """Return the SQLSTATE and the first line of the server's message, for an error of any library.

    SQLAlchemy and Django wrap the driver's error; their own message may contain the values of the statement.
    """
    state, source = None, error
    cause: BaseException | None = error
    while cause is not None:
        found = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        state, source = (str(found), cause) if found else (state, source)
        cause = getattr(cause, "orig", None) or cause.__cause__
    return state, str(source).partition("\n")[0]


def pool_exhausted_error(address: Address, limit: int) -> StoreUnavailable:
    return StoreUnavailable(
        f"all {limit} connections to {address.shown!r} were in use for {address.timeout:g} s; raise '?connections='"
    )
