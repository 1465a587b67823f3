"""All contestants of the PostgreSQL benchmark, in the order of the report."""

from functools import partial

from benchmarks.postgres.contract import Contestant
from benchmarks.postgres.pgqueuers import BATCH, MOST_CONNECTIONS, PgQueuerQueue
from benchmarks.postgres.raw import RawQueue
from benchmarks.postgres.tenures import TenureQueue

RAW = tuple(
    Contestant(
        name=f"raw-{batch}",
        about=f"tenure's statements in a bare loop, {batch:,} completed and {batch:,} claimed per round trip",
        open=partial(RawQueue, batch=batch),
        is_raw=True,
    )
    for batch in (100, 300, 1_000)
)
FIELD = (
    *RAW,
    Contestant(
        name="tenure",
        about="the worker with default settings, async tasks; from the first job to the end of the worker",
        open=TenureQueue,
    ),
    Contestant(
        name="pgqueuer",
        about=f"PgQueuer's worker with asyncpg, uvloop, batches of {BATCH} and up to {MOST_CONNECTIONS} connections; "
        "from the first job to the last completion. No fence: a worker can complete a job that it lost",
        open=PgQueuerQueue,
    ),
)
