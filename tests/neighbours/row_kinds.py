"""Kinds of rows, and the handler that runs them."""

import time
from collections.abc import Callable
from typing import Any

import tenure
from tenure.core.job import State
from tenure.core.payload import MAX_JSON_BYTES
from tests.neighbours.board import Board
from tests.neighbours.members import RARELY, SELDOM, Kind
from tests.neighbours.poison import TEXT, raise_poison
from tests.neighbours.settings import LEASE, MAX_ATTEMPTS, SLOW

REFUSAL = "the guard refuses"
"""Part of the message of the triggers and of `done_if`."""

EXTENDED_ONCE = LEASE * 0.4
"""Seconds of a run with one extension, after a third of the lease."""

RUN_OR_RELEASED = (0, 1)
"""A worker may release a row before its run; then the table refuses the release."""

KINDS = (
    Kind(name="good", says="good rows are completed and ran once", share=0.8, is_good=True),
    Kind(
        name="transaction",
        says="good rows that end in a transaction are completed and ran once",
        share=0.2,
        is_good=True,
    ),
    Kind(name="slow", says="rows that run longer than a lease keep their claim", share=SELDOM),
    Kind(name="done", says="rows that are done are completed without a run", runs=(0,)),
    Kind(
        name="poisoned",
        says="poisoned rows failed with their error",
        end=State.FAILED,
        runs=(MAX_ATTEMPTS,),
        error=TEXT,
    ),
    Kind(name="abandoned", says="rows of a dead worker are completed by others", crashes=1),
    Kind(name="abandoned_twice", says="rows of two dead workers are completed by others", share=RARELY, crashes=2),
    Kind(name="cancelled_queued", says="rows cancelled while queued never ran", end=State.CANCELLED, runs=(0,)),
    Kind(name="cancelled_running", says="rows cancelled before they failed are cancelled", end=State.CANCELLED),
    Kind(name="large_result", says="rows with a large result are completed without it", drops_result=True),
    Kind(name="wide", says="rows with some megabytes are completed", share=SELDOM),
    Kind(
        name="refuses_completion",
        says="rows whose completion is refused failed with the message",
        end=State.FAILED,
        error="the table rejected the outcome 'completed'",
        logged="rejected by its table",
    ),
    Kind(
        name="refuses_requeue",
        says="rows that may not be queued again failed with the message and the error",
        end=State.FAILED,
        runs=RUN_OR_RELEASED,
        error=REFUSAL,
        logged="rejected by its table",
    ),
    Kind(
        name="refuses_reap",
        says="rows of a dead worker that may not be queued again failed with the message",
        end=State.FAILED,
        runs=(0,),
        crashes=None,
        error=REFUSAL,
    ),
    Kind(
        name="refuses_end",
        says="rows that may not end stay running, and one line reports it",
        end=State.RUNNING,
        runs=RUN_OR_RELEASED,
        crashes=None,
        logged="rejected by its table",
    ),
    Kind(
        name="refuses_extension",
        says="rows whose lease may not be extended are completed, and one line reports it",
        share=SELDOM,
        runs=None,
        crashes=None,
        logged="not extended: the table rejects the write",
    ),
    Kind(
        name="refuses_claim",
        says="rows that may not be claimed stay queued, and one line reports it",
        end=State.QUEUED,
        runs=(0,),
        logged="not claimed",
    ),
    Kind(
        name="skips_claim",
        says="rows whose claim a trigger skips stay queued, and one line reports it",
        end=State.QUEUED,
        runs=(0,),
        logged="not claimed",
    ),
    Kind(
        name="unknown_if_done",
        says="rows for which done_if raises failed with the message",
        end=State.FAILED,
        runs=(0,),
        error="",
    ),
    Kind(
        name="unknown_if_done_abandoned",
        says="rows of a dead worker for which done_if raises failed with the message",
        end=State.FAILED,
        runs=(0,),
        crashes=None,
        error="",
    ),
)

POSTGRES_KINDS = (
    Kind(name="deep", says="rows with deep JSON are completed, as text", result="str"),
    Kind(name="digits", says="rows with a number of 5,000 digits are completed, as text", result="str"),
    Kind(name="infinite", says="rows with an infinite time are completed, as text", result="str"),
    Kind(name="locked_queued", says="rows that were locked while queued are completed", is_locked=True),
    Kind(name="locked_update", says="rows with an open update are completed", is_locked=True),
    Kind(
        name="blocked_claim",
        says="rows whose claim needed a lock are completed",
        share=SELDOM,
        is_locked=True,
    ),
    Kind(
        name="blocked_end",
        says="rows whose end needed a lock are completed",
        share=SELDOM,
        is_locked=True,
        runs=None,
        crashes=None,
    ),
    Kind(
        name="denied",
        says="rows that the role may not complete stay running, and one line reports it",
        end=State.RUNNING,
        share=SELDOM,
        runs=None,
        crashes=None,
        logged="the right to complete",
    ),
    Kind(
        name="locked_held",
        says="rows that were locked while running are completed",
        is_locked=True,
        runs=None,
        crashes=None,
    ),
)

SQLITE_KINDS = (Kind(name="no_utf8", says="rows with text that is not UTF-8 are completed", result="str"),)


def add_handler(table: tenure.Table[Any], board: Board, mark_done: Callable[[Any, Any], None]) -> None:
    """Register the handler. `mark_done` writes to the row in the transaction of its completion."""

    def poison(row: tenure.Row) -> None:
        raise_poison(row.id)

    def cancel(row: tenure.Row) -> None:
        table.cancel([row.id])
        raise ValueError("cancelled before")

    def fail(row: tenure.Row) -> None:
        raise ValueError(f"row {row.id} fails")

    def complete_in_transaction(row: tenure.Row) -> None:
        with tenure.current().transaction() as connection:
            mark_done(connection, row.id)

    def wait_for_lock(row: tenure.Row) -> None:
        board.wait_for(f"locked-{row.id}")

    actions: dict[str, Callable[[tenure.Row], Any]] = {
        "transaction": complete_in_transaction,
        "slow": lambda _: time.sleep(SLOW),
        "poisoned": poison,
        "cancelled_running": cancel,
        "large_result": lambda _: "x" * (MAX_JSON_BYTES + 1),
        "refuses_requeue": fail,
        "refuses_extension": lambda _: time.sleep(EXTENDED_ONCE),
        "deep": lambda row: type(row.facts).__name__,
        "digits": lambda row: type(row.facts).__name__,
        "infinite": lambda row: type(row.happened_at).__name__,
        "no_utf8": lambda row: type(row.note).__name__,
        "locked_held": wait_for_lock,
    }

    @table.handler
    def handle(row: tenure.Row) -> Any:
        run = tenure.current()
        board.record_run(run.id, run.fence)
        action = actions.get(row.kind)
        return None if action is None else action(row)
