"""A FastAPI app that writes orders and jobs in one transaction, with SQLAlchemy's async sessions.

    export DATABASE_URL=postgresql://app:secret@db.example.org/app
    uvicorn --app-dir examples fastapi_sqlalchemy:app
    curl -X POST 'localhost:8000/orders?total=12'
    curl localhost:8000/orders/1

Each server process has its own worker. The workers share the jobs; a killed worker loses no job.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from sqlalchemy import ForeignKey, func, make_url, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import tenure

DATABASE_URL = os.environ["DATABASE_URL"]
IN_STOCK = 100

jobs = tenure.Jobs(DATABASE_URL)
engine = create_async_engine(make_url(DATABASE_URL).set(drivername="postgresql+asyncpg"))
sessions = async_sessionmaker(engine)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[int]
    state: Mapped[str] = mapped_column(default="placed")


class Parcel(Base):
    """Created by a job. Two parcels for one order would be a bug."""

    __tablename__ = "parcels"
    number: Mapped[int] = mapped_column(primary_key=True)
    order: Mapped[int] = mapped_column(ForeignKey(Order.number))


@jobs.task(queue="shipping")
async def ship(order_number: int) -> None:
    async with sessions.begin() as session:
        order = await session.get_one(Order, order_number, with_for_update=True)
        order.state = "shipped"
        session.add(Parcel(order=order_number))
        await thank.aio.using(connection=session).enqueue(order_number)
        # Last: the parcel, the state, the next job and the completion are committed together or not at all.
        await tenure.current().aio.complete({"order": order_number}, connection=session)


@jobs.task(queue="mail")
async def thank(order_number: int) -> str:
    return f"thank you for order {order_number}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG001 - FastAPI passes it
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with jobs.aio.worker(concurrency=4, grace=10):
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place_order(total: int) -> dict[str, int | str]:
    async with sessions.begin() as session:  # commits, or rolls back
        order = Order(total=total)
        session.add(order)
        await session.flush()
        # The job exists only if the order is committed; the commit wakes a worker.
        job_id = await ship.aio.using(connection=session).enqueue(order.number)
        if total > IN_STOCK:
            raise HTTPException(409, "out of stock")
        return {"order": order.number, "job": job_id}


@app.get("/orders/{number}")
async def show_order(number: int) -> dict[str, int | str]:
    async with sessions() as session:
        order = await session.get(Order, number)
        if order is None:
            raise HTTPException(404, "there is no such order")
        parcels = await session.scalar(select(func.count()).where(Parcel.order == number))
        return {"state": order.state, "parcels": parcels or 0}
