"""A FastAPI app and a worker on the same event loop.

    uvicorn --app-dir examples fastapi_app:app
    curl -X POST 'localhost:8000/reports?month=2026-10-01'
    curl localhost:8000/reports/ID

Each server process has its own worker. The workers share the jobs; a killed worker loses no job.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import tenure

jobs = tenure.Jobs()


class Report(BaseModel):
    month: date
    orders: int


@jobs.task(queue="reports", timeout=60)
async def make_report(month: date) -> Report:
    orders = 0
    for week in range(4):
        tenure.current().progress(week, of=4)
        await asyncio.sleep(0.05)
        orders += 100
    return Report(month=month, orders=orders)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG001 - FastAPI passes it
    # The server handles signals and exits this block: running reports then have ten seconds to end.
    async with jobs.aio.worker(concurrency=4, grace=10):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports", status_code=202)
async def order_report(month: date) -> dict[str, str]:
    # While a report of this month is queued or running, this returns the id of the existing job.
    return {"id": await make_report.aio.using(key=f"report:{month}").enqueue(month)}


@app.get("/reports/{id}")
async def get_report(id: str) -> dict[str, Any]:
    job = await jobs.aio.get(id)
    if job is None or job.type != make_report.type:
        raise HTTPException(404, "there is no such report")
    report = make_report.result_of(job) if job.state == tenure.State.COMPLETED else None
    return {"state": job.state, "progress": job.progress, "report": report}
