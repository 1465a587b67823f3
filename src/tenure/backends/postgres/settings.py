"""Session settings that replace the server's defaults."""

from collections.abc import Mapping
from types import MappingProxyType

PLANNER: Mapping[str, str] = MappingProxyType(
    {
        # The text formats that `encoding.py` writes and parses.
        "array_nulls": "on",
        "extra_float_digits": "1",
        "transform_null_equals": "off",
        # A job table may be small one minute and large the next: index scans suit both.
        "enable_seqscan": "off",
        "random_page_cost": "1.1",
        # Statements are short and frequent; parallel workers would be taken from other sessions.
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
        # One plan for all values: every plan uses the indexes, and planning takes longer than execution.
        "plan_cache_mode": "force_generic_plan",
    }
)
"""Settings for parsing and planning our statements."""

SETTINGS_MARKER = "tenure.mark"
"""A custom setting, with its own name as value. A session that has it received all the other settings too."""


def session_settings(timeout: float) -> dict[str, str]:
    """Return the settings of a session with this limit, in seconds, for one operation."""
    return {
        "statement_timeout": f"{timeout * 1000:.0f}",
        "lock_timeout": f"{timeout * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{(timeout + 60) * 1000:.0f}",
        "default_transaction_isolation": "read committed",
        # Rows of the user's tables are read as text, in the formats that the driver parses.
        "DateStyle": "ISO",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        **PLANNER,
    }
