"""All contestants of the worker benchmark, in the order of the report."""

from pathlib import Path

from benchmarks.worker.contract import CONCURRENCY, Contestant
from benchmarks.worker.hueys import HueyBacklog, HueyService, memory_huey, sqlite_huey
from benchmarks.worker.tenures import TenureBacklog, TenureService, work, work_async
from benchmarks.worker.yardsticks import LoopBacklog, StoreBacklog

MEMORY = "memory://"


def sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'tenure.db'}"


FIELD = (
    Contestant(
        name="loop",
        against="memory-store",
        about=f"{CONCURRENCY} coroutines and an asyncio.Queue: the cost of calls without a job queue",
        backlog=lambda _: LoopBacklog(),
    ),
    Contestant(
        name="memory-store",
        against="memory-store",
        about="memory:// without a worker, 100 completed and 100 claimed per round trip; no handler runs",
        backlog=lambda _: StoreBacklog(MEMORY),
    ),
    Contestant(
        name="memory-async",
        against="memory-store",
        about=f"the worker on memory://, async tasks, concurrency {CONCURRENCY}",
        backlog=lambda _: TenureBacklog(MEMORY, work_async),
        service=lambda _, started: TenureService(MEMORY, started, is_async=True),
    ),
    Contestant(
        name="memory-sync",
        against="memory-store",
        about="the same, tasks in threads",
        backlog=lambda _: TenureBacklog(MEMORY, work),
        service=lambda _, started: TenureService(MEMORY, started, is_async=False),
    ),
    Contestant(
        name="memory-huey",
        against="memory-store",
        about=f"MemoryHuey and its consumer with {CONCURRENCY} threads, which poll. No lease, no completion",
        backlog=lambda _: HueyBacklog(memory_huey(), CONCURRENCY),
        service=lambda _, started: HueyService(memory_huey(), CONCURRENCY, started),
    ),
    Contestant(
        name="memory-huey-1",
        against="memory-store",
        about="the same with one thread, the default",
        backlog=lambda _: HueyBacklog(memory_huey(), 1),
    ),
    Contestant(
        name="sqlite-store",
        against="sqlite-store",
        about="sqlite:///file.db (synchronous=FULL) without a worker",
        backlog=lambda folder: StoreBacklog(sqlite(folder)),
    ),
    Contestant(
        name="sqlite-async",
        against="sqlite-store",
        about="the worker on the same store, async tasks",
        backlog=lambda folder: TenureBacklog(sqlite(folder), work_async),
        service=lambda folder, started: TenureService(sqlite(folder), started, is_async=True),
        is_shared=True,
    ),
    Contestant(
        name="sqlite-sync",
        against="sqlite-store",
        about="the same, tasks in threads",
        backlog=lambda folder: TenureBacklog(sqlite(folder), work),
        service=lambda folder, started: TenureService(sqlite(folder), started, is_async=False),
        is_shared=True,
    ),
    Contestant(
        name="sqlite-huey",
        against="sqlite-store",
        about=f"SqliteHuey (synchronous=FULL) and its consumer with {CONCURRENCY} threads. No lease, no completion",
        backlog=lambda folder: HueyBacklog(sqlite_huey(folder), CONCURRENCY),
        service=lambda folder, started: HueyService(sqlite_huey(folder), CONCURRENCY, started),
        is_shared=True,
    ),
    Contestant(
        name="sqlite-huey-1",
        against="sqlite-store",
        about="the same with one thread",
        backlog=lambda folder: HueyBacklog(sqlite_huey(folder), 1),
    ),
)
