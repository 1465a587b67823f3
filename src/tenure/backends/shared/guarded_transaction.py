"""A transaction that ends with its block, not before: the completion has to be in it."""

import re

from tenure.core import checks
from tenure.errors import ConfigurationError

OURS = "this transaction is committed when its block is left, and rolled back by an exception"

ENDS_IT = re.compile(
    r"(\s|;|--[^\n]*\n|/\*.*?\*/)*"
    r"(begin|start\s+transaction|commit|end|abort|prepare\s+transaction"
    r"|rollback(?!\s+((transaction|work)\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)
"""How a statement begins that would end it."""


def refuse_to_end(statement: str) -> None:
    """Raise for a statement that would end the transaction."""
    if ENDS_IT.match(statement):
        raise ConfigurationError(f"{OURS}; leave out {checks.shown(statement)}")
