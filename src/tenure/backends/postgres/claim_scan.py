"""How deep a claim scans each lane."""

EXTRA_SCAN = 16
"""How many jobs a claim scans in a lane beyond its limit: concurrent claims may hold the first ones."""
SCAN_GROWTH = 8
"""Growth of the scan depth if a pass did not find enough jobs."""
