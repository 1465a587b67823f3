"""Statements that find lanes with jobs. There is one variant for each way to filter by queue and type."""

from collections.abc import Mapping, Sequence

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.rows import JOB

LANES = statements(__package__, "lanes")

ALL, BY_QUEUES, BY_QUEUES_AND_TYPES = "all", "of queues", "of queues and types"

Variants = Mapping[str, Mapping[str, str]]


def statement_variants(operation: str) -> Variants:
    """Return the statements of an operation for each filter variant."""
    return {
        variant: statements(
            __package__,
            operation,
            job=JOB,
            due_lanes=LANES[variant].format(index="tenure_lanes_due"),
            scheduled_lanes=LANES[variant].format(index="tenure_lanes_scheduled"),
        )
        for variant in (ALL, BY_QUEUES, BY_QUEUES_AND_TYPES)
    }


def filter_variant(queues: Sequence[str] | None, types: Sequence[str] | None) -> str:
    """Return the filter variant that reads no more lanes than requested."""
    if queues is None:
        return ALL
    return BY_QUEUES if types is None else BY_QUEUES_AND_TYPES
