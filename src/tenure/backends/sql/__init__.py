"""What the SQL engines share."""

from tenure.backends.sql.statements import parts, statements

__all__ = ["parts", "statements"]
