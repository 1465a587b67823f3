"""Statements that the connection of a `transaction()` block rejects.

The transaction must stay open until the block ends, because it must contain the completion of the job.
"""

import re

from tenure.core import checks
from tenure.errors import ConfigurationError

ENDS_WITH_BLOCK = "this transaction commits when its block ends, and rolls back on an exception"

ENDING_STATEMENT = re.compile(
    r"(\s|;|--[^\n]*\n|/\*.*?\*/)*"
    r"(begin|start\s+transaction|commit|end|abort|prepare\s+transaction"
    r"|rollback(?!\s+((transaction|work)\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)
"""The beginning of a statement that would end the transaction."""


def reject_ending(statement: str) -> None:
    """Raise `ConfigurationError` for a statement that would end the transaction."""
    if ENDING_STATEMENT.match(statement):
        raise ConfigurationError(f"{ENDS_WITH_BLOCK}; remove {checks.short_repr(statement)}")
