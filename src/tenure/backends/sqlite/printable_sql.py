"""The SQL of this store as text for readers: the statements of each operation with comments, and the schema.

If a statement has several variants, the text shows the variant for all queues and types, newest first.
"""

from collections.abc import Mapping
from importlib.resources import files

from tenure.backends.sqlite.lanes import ALL, LANES
from tenure.backends.sqlite.migrations import SCRIPTS
from tenure.backends.sqlite.read import DIRECTIONS, FIND_ALL
from tenure.backends.sqlite.rows import JOB

NOT_OPERATIONS = {"columns", "schema"}


def printable_sql() -> Mapping[str, str]:
    """Return the SQL of each operation by name, and of the schema."""
    folder = files(__package__)
    names = sorted(each.name.removesuffix(".sql") for each in folder.iterdir() if each.name.endswith(".sql"))
    fragments = {
        "job": JOB,
        "due_lanes": LANES[ALL].format(index="tenure_lanes_due"),
        "scheduled_lanes": LANES[ALL].format(index="tenure_lanes_scheduled"),
        "candidates": FIND_ALL,
        **DIRECTIONS[True],
    }
    found = {
        name: folder.joinpath(f"{name}.sql").read_text("utf-8").format(**fragments)
        for name in names
        if name not in NOT_OPERATIONS
    }
    return {**found, "schema": "\n".join(script.read_text("utf-8") for script in SCRIPTS)}
