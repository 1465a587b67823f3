"""PgQueuer with its fastest settings: asyncpg, uvloop, a connection pool, large batches.

Its tables are durable, as by default; its log is not aggregated during the run. The time runs from the first job until
the table is empty, without start and stop.
"""

import asyncio
import json
from collections.abc import Coroutine
from datetime import timedelta
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.contestants.contract import PAYLOAD
from benchmarks.postgres.tenures import TYPE

BATCH = 500
LEAST_CONNECTIONS, MOST_CONNECTIONS = 4, 20
NEVER = timedelta(0)
PAUSE = 0.001
"""Seconds between two checks whether the last completions are stored."""
PATIENCE = 300.0

R = TypeVar("R")


class PgQueuerQueue:
    def __init__(self, url: str) -> None:
        import uvloop

        self._url = url
        self._number = 0
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._run(self._install())

    def enqueue(self, number: int, at_once: int) -> float:
        self._number += number
        return self._run(self._enqueue(number, at_once))

    def drain(self) -> float:
        return self._run(self._drain())

    def left(self) -> int:
        return self._run(self._left())

    def close(self) -> None:
        self._runner.close()

    def _run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return self._runner.run(asyncio.wait_for(coroutine, PATIENCE))

    async def _install(self) -> None:
        connection, queries = await self._connected()
        await queries.install()
        await connection.close()

    async def _enqueue(self, number: int, at_once: int) -> float:
        connection, queries = await self._connected()
        payload = json.dumps(PAYLOAD).encode()
        started = perf_counter()
        if at_once == 1:
            for _ in range(number):
                await queries.enqueue(TYPE, payload)
        else:
            for start in range(0, number, at_once):
                size = min(at_once, number - start)
                await queries.enqueue([TYPE] * size, [payload] * size, [0] * size)
        took = perf_counter() - started
        await connection.close()
        return took

    async def _drain(self) -> float:
        import asyncpg
        from pgqueuer import PgQueuer

        done, first_at, all_ran = 0, 0.0, asyncio.Event()

        async def work(job: Any) -> None:
            nonlocal done, first_at
            first_at = first_at or perf_counter()
            json.loads(job.payload)
            done += 1
            if done == self._number:
                all_ran.set()

        pool = await asyncpg.create_pool(self._url, min_size=LEAST_CONNECTIONS, max_size=MOST_CONNECTIONS)
        queuer = PgQueuer.from_asyncpg_pool(pool)
        queuer.entrypoint(TYPE)(work)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(queuer.run(batch_size=BATCH, log_aggregation_interval=NEVER))
            await all_ran.wait()
            while await pool.fetchval("select exists (select from pgqueuer)"):  # noqa: ASYNC110 - there is no notification
                await asyncio.sleep(PAUSE)
            took = perf_counter() - first_at
            queuer.shutdown.set()
        await pool.close()
        return took

    async def _left(self) -> int:
        connection, _ = await self._connected()
        number: int = await connection.fetchval("select count(*) from pgqueuer")
        await connection.close()
        return number

    async def _connected(self) -> tuple[Any, Any]:
        import asyncpg
        from pgqueuer import Queries
        from pgqueuer.db import AsyncpgDriver

        connection = await asyncpg.connect(self._url)
        return connection, Queries(AsyncpgDriver(connection))
