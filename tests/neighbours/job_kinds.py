"""Kinds of jobs, and the tasks that run them. The kind is the type of the job."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import tenure
from tenure.core.job import NewJob, State
from tenure.core.payload import MAX_JSON_BYTES
from tests.neighbours.board import Board
from tests.neighbours.members import RARELY, SELDOM, Kind, Member
from tests.neighbours.poison import TEXT, raise_poison
from tests.neighbours.settings import MAX_ATTEMPTS, SLOW

TIME_LIMIT = 0.5
ENDLESS = 3600.0

KINDS = (
    Kind(name="good", says="good jobs are completed and ran once", share=0.5, is_good=True),
    Kind(name="good_async", says="good async jobs are completed and ran once", share=0.5, is_good=True),
    Kind(name="slow", says="jobs that run longer than a lease keep their claim", share=SELDOM),
    Kind(
        name="poisoned",
        says="poisoned jobs failed with their error",
        end=State.FAILED,
        runs=(MAX_ATTEMPTS,),
        error=TEXT,
    ),
    Kind(name="abandoned", says="jobs of a dead worker are completed by others", crashes=1),
    Kind(name="abandoned_twice", says="jobs of two dead workers are completed by others", share=RARELY, crashes=2),
    Kind(name="cancelled_queued", says="jobs cancelled while queued never ran", end=State.CANCELLED, runs=(0,)),
    Kind(name="cancelled_running", says="jobs cancelled before they failed are cancelled", end=State.CANCELLED),
    Kind(
        name="cancelled_waiting",
        says="running jobs are stopped by a cancel request",
        share=SELDOM,
        end=State.CANCELLED,
    ),
    Kind(name="large_result", says="jobs with a large result are completed without it", drops_result=True),
    Kind(
        name="odd_result",
        says="jobs whose result is not JSON are completed without it",
        drops_result=True,
        logged="result was dropped",
    ),
    Kind(name="large_payload", says="jobs with a large payload are completed", result=MAX_JSON_BYTES - 100),
    Kind(
        name="wrong_payload",
        says="jobs with a wrong payload failed with the reason",
        end=State.FAILED,
        runs=(0,),
        error="wrong_payload",
    ),
    Kind(
        name="stuck",
        says="jobs past their time limit failed",
        share=SELDOM,
        end=State.FAILED,
        runs=(MAX_ATTEMPTS,),
        error="exceeded its time limit",
    ),
    Kind(name="unhandled", says="jobs without a task stay queued", end=State.QUEUED, runs=(0,)),
)

LOCKED = (
    Kind(name="locked_queued", says="jobs that were locked while queued are completed", is_locked=True),
    Kind(
        name="locked_held",
        says="jobs that were locked while running are completed",
        is_locked=True,
        runs=None,
        crashes=None,
    ),
)
"""Only on PostgreSQL, which can lock a single job."""


def new_job(member: Member) -> NewJob:
    payloads: dict[str, dict[str, Any]] = {
        "poisoned": {"position": member.position},
        "large_payload": {"text": "x" * (MAX_JSON_BYTES - 100)},
        "wrong_payload": {"unknown": 1},
    }
    return NewJob(
        member.kind.name,
        payloads.get(member.kind.name, {}),
        id=member.id,
        max_attempts=MAX_ATTEMPTS,
        timeout=TIME_LIMIT if member.kind.name == "stuck" else None,
    )


def add_tasks(jobs: tenure.Jobs, board: Board) -> None:
    """Register a task for each kind that a worker can run."""

    def record() -> str:
        run = tenure.current()
        board.record_run(run.id, run.fence)
        return run.id

    for name in ("good", "abandoned", "abandoned_twice", "locked_queued", "cancelled_queued"):
        jobs.task(name)(_build_plain(record))
    jobs.task("good_async")(_build_plain_async(record))
    _add_bad_endings(jobs, record)
    _add_large(jobs, record)
    _add_long(jobs, record)

    @jobs.task
    def locked_held() -> None:
        board.wait_for(f"locked-{record()}")


def _build_plain(record: Callable[[], str]) -> Callable[[], None]:
    def plain() -> None:
        record()

    return plain


def _build_plain_async(record: Callable[[], str]) -> Callable[[], Awaitable[None]]:
    async def plain() -> None:
        record()

    return plain


def _add_bad_endings(jobs: tenure.Jobs, record: Callable[[], str]) -> None:
    @jobs.task
    def poisoned(position: int) -> None:
        record()
        raise_poison(position)

    @jobs.task
    def cancelled_running() -> None:
        jobs.cancel([record()])
        raise ValueError("cancelled before")

    @jobs.task
    async def cancelled_waiting() -> None:
        await jobs.aio.cancel([record()])
        await asyncio.sleep(ENDLESS)

    @jobs.task
    def wrong_payload(known: int) -> None:  # noqa: ARG001 - no call gets this far
        record()


def _add_large(jobs: tenure.Jobs, record: Callable[[], str]) -> None:
    @jobs.task
    def large_result() -> str:
        record()
        return "x" * (MAX_JSON_BYTES + 1)

    @jobs.task
    def odd_result() -> Any:
        record()
        return object()

    @jobs.task
    def large_payload(text: str) -> int:
        record()
        return len(text)


def _add_long(jobs: tenure.Jobs, record: Callable[[], str]) -> None:
    @jobs.task
    async def slow() -> None:
        record()
        await asyncio.sleep(SLOW)

    @jobs.task
    async def stuck() -> None:
        record()
        await asyncio.sleep(ENDLESS)
