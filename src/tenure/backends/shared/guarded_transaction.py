"""A transaction that ends with its block, not before: the completion has to be in it."""

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
"""How a statement begins that would end it."""


def reject_ending(statement: str) -> None:
    """Raise for a statement that would end the transaction."""
    if ENDING_STATEMENT.match(statement):
        raise ConfigurationError(f"{ENDS_WITH_BLOCK}; remove {checks.short_repr(statement)}")
