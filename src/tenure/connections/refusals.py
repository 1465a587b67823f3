"""What is raised for a connection that cannot be used, or for what its owner has left in it."""

from tenure.errors import ConfigurationError


class CallersOwn(Exception):  # noqa: N818 - it names a fact, and never leaves the backend
    """Work of the caller's own was done first, and that failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def no_transaction(remedy: str) -> ConfigurationError:
    return ConfigurationError(f"connection has no transaction to join, and begins none by itself; {remedy}")


def other_database(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"connection is to {name!r}, and the jobs are in PostgreSQL: one transaction cannot hold both"
    )
