"""How a worker is, at one moment."""

from dataclasses import dataclass

from tenure.worker.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """What a worker tells of itself, for whoever watches over its process.

    `quiet_for` is for how many seconds its event loop or its claims have stood still. `running` jobs have a handler
    that runs; `waiting` ones are held, and wait for a slot.
    """

    name: str
    pid: int
    is_ready: bool
    is_stopping: bool
    is_store_failing: bool
    quiet_for: float
    running: int
    buffered: int
    summary: Summary
