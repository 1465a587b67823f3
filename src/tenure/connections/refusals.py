"""What is raised for a connection that has no transaction to join."""

from tenure.errors import ConfigurationError


def no_transaction(remedy: str) -> ConfigurationError:
    return ConfigurationError(f"connection has no transaction to join, and begins none by itself; {remedy}")


def other_database(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"connection is to {name!r}, and the jobs are in PostgreSQL: one transaction cannot hold both"
    )
