"""How far into a line a claim looks."""

EXTRA_SCAN = 16
"""How many jobs of a line, beyond those wanted, are looked at: others may be taking the first."""
SCAN_GROWTH = 8
"""How many times as many are looked at next, if that was not enough."""
