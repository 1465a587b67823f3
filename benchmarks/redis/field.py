"""All contestants of the Redis benchmark, in the order of the report."""

from benchmarks.redis.apps.tenures import AWAITED, IN_THREAD
from benchmarks.redis.contract import Contestant, Queue

RAW = "raw"
"""The yardstick."""
PEERS = ("dramatiq", "taskiq-stream")
"""The peers with acknowledgements."""
BATCH = 500
THREADS = 4
PREFETCHED = 1_000
AT_A_TIME = 100


def raw() -> Queue:
    from benchmarks.redis.raw import RawQueue

    return RawQueue()


def awaited() -> Queue:
    from benchmarks.redis.tenures import TenureQueue

    return TenureQueue(AWAITED)


def in_thread() -> Queue:
    from benchmarks.redis.tenures import TenureQueue

    return TenureQueue(IN_THREAD)


def dramatiq() -> Queue:
    from benchmarks.redis.dramatiqs import DramatiqQueue

    return DramatiqQueue()


def taskiq_stream() -> Queue:
    from benchmarks.redis.taskiqs import StreamQueue

    return StreamQueue()


def taskiq_list() -> Queue:
    from benchmarks.redis.taskiqs import ListQueue

    return ListQueue()


APPS = "benchmarks.redis.apps"
TENURE = ("tenure.cli", "work", f"{APPS}.tenures:jobs", "--log-level", "warning")
DRAMATIQ = ("dramatiq", f"{APPS}.dramatiqs", "--processes", "1", "--threads", str(THREADS), "--skip-logging")
TASKIQ = ("--workers", "1", "--max-async-tasks", str(AT_A_TIME), "--max-prefetch", str(AT_A_TIME))
QUIET = ("--log-level", "WARNING")

FIELD = (
    Contestant(
        name=RAW,
        about=f"minimal Lua in a bare loop, {BATCH} acknowledged and {BATCH} claimed per round trip",
        open=raw,
        command=("benchmarks.redis.raw", str(BATCH)),
        jobs=200_000,
    ),
    Contestant(
        name="store",
        about=f"tenure's store in a bare loop, {BATCH} completed and {BATCH} claimed per round trip",
        open=awaited,
        command=("benchmarks.redis.store", str(BATCH)),
        jobs=30_000,
    ),
    Contestant(
        name="tenure",
        about="the worker with default settings, async tasks",
        open=awaited,
        command=TENURE,
        jobs=30_000,
        is_waited_for=True,
    ),
    Contestant(name="tenure-sync", about="the same, tasks in threads", open=in_thread, command=TENURE, jobs=30_000),
    Contestant(
        name="tenure-always",
        about="async tasks, on a server with appendfsync always",
        open=awaited,
        command=TENURE,
        jobs=30_000,
        is_durable=True,
    ),
    Contestant(
        name="dramatiq",
        about=f"one process, default middleware, {THREADS} threads (8 by default), {PREFETCHED:,} prefetched messages "
        "(2 per thread by default)",
        open=dramatiq,
        command=DRAMATIQ,
        environment={"dramatiq_queue_prefetch": str(PREFETCHED)},
        jobs=6_000,
        has_bulk=False,
        is_waited_for=True,
    ),
    Contestant(
        name="taskiq-stream",
        about=f"RedisStreamBroker, one process with uvloop, {AT_A_TIME} tasks at a time and as many prefetched; "
        "acknowledges a message after its task",
        open=taskiq_stream,
        command=("taskiq", "worker", f"{APPS}.taskiqs:streamed", *TASKIQ, *QUIET),
        jobs=6_000,
        has_bulk=False,
        is_waited_for=True,
    ),
    Contestant(
        name="taskiq-list",
        about="ListQueueBroker, the same; no acknowledgements, so jobs of a dead worker are lost",
        open=taskiq_list,
        command=("taskiq", "worker", f"{APPS}.taskiqs:listed", *TASKIQ, *QUIET),
        jobs=6_000,
        has_bulk=False,
    ),
)
