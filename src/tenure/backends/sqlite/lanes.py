"""Statements that look for lanes which have something: one form for each way of asking."""

from collections.abc import Mapping, Sequence

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.rows import JOB

LANES = statements(__package__, "lanes")

ALL, OF_QUEUES, OF_QUEUES_AND_TYPES = "all", "of queues", "of queues and types"

Asking = Mapping[str, Mapping[str, str]]


def by_asking(operation: str) -> Asking:
    """Return the statements of an operation, for each way in which queues and types may be named."""
    return {
        way: statements(
            __package__,
            operation,
            job=JOB,
            due_lanes=LANES[way].format(index="tenure_lanes_due"),
            scheduled_lanes=LANES[way].format(index="tenure_lanes_scheduled"),
        )
        for way in (ALL, OF_QUEUES, OF_QUEUES_AND_TYPES)
    }


def way_of(queues: Sequence[str] | None, types: Sequence[str] | None) -> str:
    """Return the form that looks at no more lanes than are asked for."""
    if queues is None:
        return ALL
    return OF_QUEUES if types is None else OF_QUEUES_AND_TYPES
