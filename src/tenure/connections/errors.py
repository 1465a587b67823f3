"""Errors of the caller's connections."""

from tenure.errors import ConfigurationError


class CallerError(Exception):
    """The caller's own pending work, such as a flush, failed before the statement of tenure ran."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def no_transaction_error(remedy: str) -> ConfigurationError:
    return ConfigurationError(f"connection is in autocommit mode and has no open transaction; {remedy}")


def wrong_database_error(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"connection is to {name!r}, but the jobs are in PostgreSQL; pass a connection to the database of the jobs"
    )
