"""What the SQL engines share."""

from tenure.backends.sql.statements import statements

__all__ = ["statements"]
