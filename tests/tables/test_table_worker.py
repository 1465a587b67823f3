"""Workers on the rows of a table."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import tenure
from tenure.client.keeper import ticks
from tenure.core.job import Outcome
from tenure.core.operations import ClaimRequest
from tenure.worker.row_source import ClaimedWithDone, DoneCheckingTable, TableRun
from tests.tables.client_shop import Shop
from tests.worker.looking import DEADLINE, until


def test_a_handler_is_called_with_each_row_and_its_work_commits_with_the_completion(shop: Shop) -> None:
    shop.given(5)

    with shop.table() as orders:

        @orders.handler
        def invoice(row: tenure.Row) -> None:
            with tenure.current().transaction() as connection:
                shop.invoice(connection, row.id)

        summary = orders.work(drain=True, concurrency=2)

    assert summary == tenure.worker.Summary(completed=5)
    assert shop.invoices() == [1, 2, 3, 4, 5]
    assert set(shop.statuses()) == {"done"}


def test_an_async_handler_runs_on_the_loop_of_the_caller(shop: Shop) -> None:
    shop.given(3)

    async def main() -> None:
        async with shop.table().aio as orders:
            loop = asyncio.get_running_loop()

            @orders.handler
            async def invoice(row: tenure.Row) -> None:
                assert asyncio.get_running_loop() is loop
                async with tenure.current().aio.transaction() as connection:
                    await shop.invoice_awaited(connection, row.id)

            async with orders.worker(concurrency=2):
                while len(shop.invoices()) < 3:  # noqa: ASYNC110 - changed in the database
                    await asyncio.sleep(0.01)

    asyncio.run(main())

    assert shop.invoices() == [1, 2, 3]
    assert shop.statuses() == ["done", "done", "done"]


def test_a_worker_on_a_loop_drains_and_returns_what_it_did(lite_shop: Shop) -> None:
    lite_shop.given(2)

    async def main() -> Any:
        async with lite_shop.table().aio as orders:
            orders.handler(lambda row: row.id)
            return await orders.work(drain=True)

    assert asyncio.run(main()).completed == 2


def test_the_work_of_a_row_that_is_done_is_not_done_again_and_told_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.given(4)
    shop.rows("insert into {invoices} (order_id) values (1), (3)")
    called: list[int] = []

    with caplog.at_level(logging.INFO), shop.table() as orders:
        orders.handler(lambda row: called.append(row.id))
        summary = orders.work(drain=True, concurrency=1)
        stats = orders.stats()

    told = [record.message for record in caplog.records if "is already done" in record.message]
    assert sorted(called) == [2, 4]
    assert (summary.completed, summary.prevented, summary.total) == (4, 2, 4)
    assert stats.total("prevented") == 2
    assert told == [f"row {id} of orders is already done; skipping the handler" for id in (1, 3)]


def test_rows_that_come_in_exchange_for_an_ending_are_looked_at_as_well(shop: Shop) -> None:
    shop.given(3)
    shop.rows("insert into {invoices} (order_id) values (2)")

    with shop.table() as orders:
        (claim,) = orders.claim()
        landed, claimed = DoneCheckingTable(orders._backend).exchange(
            [claim.completion()], ClaimRequest(limit=2, worker="w", token="t")
        )

    assert landed == [True]
    assert isinstance(claimed, ClaimedWithDone)
    assert [job.id for job in claimed.jobs] == ["2", "3"]
    assert claimed.done == frozenset({"2"})


async def is_second_later(row: tenure.Row) -> bool:
    await asyncio.sleep(0)
    return bool(row.id == 2)


@pytest.mark.parametrize(
    ("done_if", "is_async"),
    [(lambda row: row.id == 2, False), (lambda row: row.id == 2, True), (is_second_later, True)],
    ids=["both sync", "a sync function, an async handler", "both async"],
)
def test_a_function_is_asked_before_the_handler(lite_shop: Shop, done_if: Any, is_async: bool) -> None:  # noqa: FBT001
    lite_shop.given(3)
    called: list[int] = []

    async def note_later(row: tenure.Row) -> None:
        called.append(row.id)

    def note(row: tenure.Row) -> None:
        called.append(row.id)

    with lite_shop.table(output=None, done_if=done_if) as orders:
        orders.handler(note_later if is_async else note)
        summary = orders.work(drain=True)

    assert sorted(called) == [1, 3]
    assert (summary.completed, summary.prevented) == (3, 1)


def test_what_done_if_raises_is_a_failure_of_the_row_and_its_work_is_not_done(lite_shop: Shop) -> None:
    lite_shop.given(1)
    called: list[int] = []

    with lite_shop.table(output=None, done_if=lambda row: row.nothing, max_attempts=1) as orders:
        orders.handler(lambda row: called.append(row.id))
        orders.work(drain=True)
        job = orders.get(1)

    assert called == []
    assert job is not None
    assert (job.state, "no column 'nothing'" in job.errors[0]) == ("failed", True)


def told_by_source(shop: Shop) -> dict[str, Any]:
    """Return options with a `done_if` that reads JSON from `source`, and fails for other text."""
    is_sqlite = shop.schema is None
    done_if = "json_extract(source, '$.done') = 1" if is_sqlite else "cast(source as json) ->> 'done' = '1'"
    return {"where": None, "params": None, "output": None, "done_if": done_if}


def test_a_row_for_which_done_if_fails_in_the_database_fails_alone(shop: Shop) -> None:
    shop.given(3, source='{{"done": 0}}')
    shop.given(1, source="no JSON")
    shop.given(1, source='{{"done": 1}}')
    called: list[int] = []

    with shop.table(**told_by_source(shop), max_attempts=1) as orders:
        orders.handler(lambda row: called.append(row.id))
        summary = orders.work(drain=True)

    assert sorted(called) == [1, 2, 3]
    assert shop.statuses() == ["done", "done", "done", "failed", "done"]
    assert (summary.completed, summary.prevented, summary.failed) == (4, 1, 1)


@pytest.mark.parametrize("is_async", [False, True])
def test_rows_whose_done_if_becomes_invalid_are_snoozed_longer_and_longer_and_not_failed(
    shop: Shop,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_async: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr("tenure.worker.row_source.INVALID_DELAY", 0.01)
    called: list[int] = []

    async def note_later(row: tenure.Row) -> None:
        called.append(row.id)

    def note(row: tenure.Row) -> None:
        called.append(row.id)

    with shop.table(max_attempts=1) as orders:
        orders.handler(note_later if is_async else note)
        shop.given(1)
        with orders.worker():
            until(lambda: shop.statuses() == ["done"])
            shop.rows(f"alter table {shop.named('invoices')} rename to bills")
            shop.given(2)
            until(lambda: all(len(job.history) >= 4 for job in orders.find() if job.id != "1"))
            jobs = [job for job in orders.find() if job.id != "1"]
            called_while_invalid = called[1:]
            shop.rows(f"alter table {shop.named('bills')} rename to invoices")
            until(lambda: shop.statuses() == ["done", "done", "done"])

    assert called_while_invalid == []
    assert sorted(called) == [1, 2, 3]
    assert {ending.outcome for job in jobs for ending in job.history} == {Outcome.SNOOZED}
    delays = [(job.run_at - job.history[-1].ended_at).total_seconds() for job in jobs]
    assert delays == pytest.approx([0.01 * 2 ** (len(job.history) - 1) for job in jobs], rel=0.2)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert "rows of orders snoozed: done_if is invalid: " in told[0]


def test_a_worker_starts_although_done_if_fails_for_the_row_with_which_it_is_checked(shop: Shop) -> None:
    shop.given(1, source='{{"done": 0}}')
    shop.given(1, source="no JSON")

    with shop.table(**told_by_source(shop), max_attempts=1) as orders:
        orders.handler(lambda row: None)  # noqa: ARG005
        orders.work(drain=True)

    assert shop.statuses() == ["done", "failed"]


def test_a_row_whose_lease_expired_and_for_which_done_if_fails_fails_alone(shop: Shop) -> None:
    shop.given(1, source="no JSON")
    shop.given(2, source='{{"done": 0}}')

    with shop.table(**told_by_source(shop)) as orders:
        orders.claim()
        shop.rows("update {orders} set tenure_leased_until = '2000-01-01 00:00:00.000000' where id = 1")
        taken = [claim.row.id for claim in orders.claim(limit=5)]
        states = shop.statuses()

    assert taken == [2, 3]
    assert states == ["failed", "processing", "processing"]


def test_the_answers_of_a_handler_mean_what_they_mean_in_a_task(lite_shop: Shop) -> None:
    lite_shop.given(5)

    with lite_shop.table(backoff=tenure.Backoff(first=3600)) as orders:

        @orders.handler(give_up_on=ZeroDivisionError)
        def answer(row: tenure.Row) -> Any:
            if row.id == 5:
                raise ZeroDivisionError
            return {
                1: tenure.Retry(3600, why="later"),
                2: tenure.Snooze(3600),
                3: tenure.Fail("never"),
                4: tenure.Cancel("not wanted"),
            }[row.id]

        orders.work(drain=True)
        jobs = {int(job.id): job for job in orders.find()}

    assert [(jobs[id].state.value, jobs[id].attempts) for id in range(1, 6)] == [
        ("queued", 1),
        ("queued", 0),
        ("failed", 1),
        ("cancelled", 1),
        ("failed", 1),
    ]


def test_the_policy_is_that_of_the_handler_or_else_of_the_table(lite_shop: Shop) -> None:
    lite_shop.given(1)

    with lite_shop.table(max_attempts=2, timeout=0.05, backoff=tenure.Backoff(first=3600)) as orders:

        @orders.handler(backoff=tenure.Backoff(first=0))
        async def sleep(row: tenure.Row) -> None:  # noqa: ARG001
            await asyncio.sleep(60)

        orders.work(drain=True)
        job = orders.get(1)

    assert job is not None
    assert (job.state, job.attempts) == ("failed", 2)
    assert "TimeoutError: 'orders' exceeded its time limit of 0.05 seconds" in job.errors[-1]


def test_a_row_is_held_for_the_lease_of_its_table(lite_shop: Shop) -> None:
    lite_shop.given(1)
    held: list[float] = []

    with tenure.Jobs("memory://") as jobs, lite_shop.table(lease=180) as orders:
        jobs.task("send")(lambda: held.append(tenure.current().lease.length))
        jobs.enqueue("send")
        orders.handler(lambda row: held.append(tenure.current().lease.length))  # noqa: ARG005
        tenure.work(jobs, orders, lease=90, drain=True)

    assert sorted(held) == [90.0, 180.0]


def test_a_row_runs_within_what_its_jobs_puts_around_runs(lite_shop: Shop) -> None:
    lite_shop.given(1)
    seen: list[str] = []

    with tenure.Jobs(lite_shop.url) as jobs, lite_shop.table(jobs) as orders:

        @jobs.lifespan
        @contextmanager
        def worker() -> Iterator[None]:
            seen.append("worker")
            yield

        @jobs.around
        @contextmanager
        def run() -> Iterator[None]:
            seen.append(f"run of {tenure.current().row.id}")
            yield

        orders.handler(lambda row: seen.append(f"row {row.id}"))
        orders.work(drain=True)

    assert seen == ["worker", "run of 1", "row 1"]


def test_a_worker_of_a_table_made_with_a_jobs_is_shown_in_its_registry(shop: Shop) -> None:
    shop.given(1)
    begun, may_end = threading.Event(), threading.Event()

    with tenure.Jobs(shop.jobs_url) as jobs, shop.table(jobs) as orders:

        @orders.handler
        def hold(row: tenure.Row) -> None:  # noqa: ARG001
            begun.set()
            may_end.wait(DEADLINE)

        with orders.worker(name="web") as worker:
            begun.wait(DEADLINE)
            (known,) = jobs.workers()
            explained = orders.explain(1)
            may_end.set()
        gone = jobs.workers()

    assert (known.name, known.queues, known.types) == (worker.name, ("orders",), ("orders",))
    assert explained is not None
    assert "its worker sent a heartbeat" in str(explained)
    assert gone == []


def test_a_function_stays_what_it_is(lite_shop: Shop) -> None:
    orders = lite_shop.table()

    def plain(row: tenure.Row) -> int:
        return int(row.id)

    assert orders.handler(plain) is orders.handler(timeout=5)(plain) is plain
    orders.close()


def test_a_second_handler_is_refused(lite_shop: Shop) -> None:
    orders = lite_shop.table()
    orders.handler(lambda row: row)

    with pytest.raises(tenure.DuplicateTask, match=r"table 'orders' already has the handler .*; create another Table"):
        orders.handler(print)
    orders.close()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"lease": 30}, "a worker of a table takes no lease="),
        ({"queues": "mail"}, "queues applies to jobs, and this worker has only tables"),
        ({"types": "mail"}, "types applies to jobs, and this worker has only tables"),
        ({"concurency": 3}, "work has no option 'concurency'; did you mean 'concurrency'"),
    ],
)
def test_options_that_mean_nothing_for_a_table_are_refused(lite_shop: Shop, options: Any, why: str) -> None:
    with lite_shop.table() as orders:
        orders.handler(lambda row: row)
        with pytest.raises(tenure.ConfigurationError, match=why):
            orders.work(**options)
        with pytest.raises(tenure.ConfigurationError, match=why):
            orders.worker(**options)


def test_what_cannot_run_is_told_before_anything_is_claimed(lite_shop: Shop) -> None:
    @dataclass
    class Parcel:
        sauce: str

    lite_shop.given(1)
    without = lite_shop.table()
    misfit = lite_shop.table(row=Parcel)
    misfit.handler(lambda row: row)
    mixed = lite_shop.table(output=None, done_if=is_second_later)
    mixed.handler(lambda row: row)

    with pytest.raises(tenure.ConfigurationError, match=r"<Table 'orders' .* has no handler"):
        without.work(drain=True)
    with pytest.raises(tenure.ConfigurationError, match="field 'sauce' of "):
        misfit.work(drain=True)
    with pytest.raises(tenure.ConfigurationError, match="done_if of table 'orders' is async but its handler is not"):
        mixed.work(drain=True)

    assert lite_shop.statuses() == ["pending"]
    for each in (without, misfit, mixed):
        each.close()


def test_a_handler_that_settles_by_itself_what_it_finds_done_is_counted_too(lite_shop: Shop) -> None:
    lite_shop.given(1)

    with lite_shop.table() as orders:

        @orders.handler
        def invoice(row: tenure.Row) -> None:
            lite_shop.rows(f"insert into {{invoices}} (order_id) values ({row.id})")
            run = tenure.current()
            assert run.already_done()
            run.complete()

        summary = orders.work(drain=True)

    assert (summary.completed, summary.prevented) == (1, 1)


def test_work_that_a_handler_finds_done_is_counted_though_its_result_cannot_be_kept(lite_shop: Shop) -> None:
    lite_shop.given(1)

    with lite_shop.table() as orders:

        @orders.handler
        def invoice(row: tenure.Row) -> object:
            lite_shop.rows(f"insert into {{invoices}} (order_id) values ({row.id})")
            return object() if tenure.current().already_done() else None

        summary = orders.work(drain=True)
        row = orders.stats().rows[0]

    assert (summary.completed, summary.prevented) == (1, 1)
    assert (row.completed, row.prevented) == (1, 1)


@pytest.mark.parametrize(
    ("found_done", "cancel_requested", "outcome"),
    [(True, True, "completed"), (True, False, "completed"), (False, True, "cancelled"), (False, False, None)],
)
def test_work_that_is_done_is_completed_though_a_cancel_was_asked_for(
    lite_shop: Shop,
    found_done: bool,  # noqa: FBT001
    cancel_requested: bool,  # noqa: FBT001
    outcome: str | None,
) -> None:
    lite_shop.given(1)

    with lite_shop.table() as orders:
        (claim,) = orders.claim()
        run = TableRun(orders._open()[1], claim.job, claim.lease, orders._context)
        run.claimed_row.found_done, run.lease.cancel_requested = found_done, cancel_requested
        refusal = run.rejection(ticks())

    assert (refusal and refusal.outcome.value) == outcome


def test_a_done_if_that_the_database_refuses_is_told_before_anything_is_claimed(shop: Shop) -> None:
    shop.given(1)
    orders = shop.table(output=None, done_if="exists (select 1 from nowhere)")
    orders.handler(lambda row: row)

    with orders, pytest.raises(tenure.TenureError, match="nowhere"):
        orders.work(drain=True)

    assert shop.statuses() == ["pending"]


@pytest.mark.parametrize("function", [7, "name"])
def test_a_handler_is_a_function(lite_shop: Shop, function: Any) -> None:
    with lite_shop.table() as orders, pytest.raises(tenure.ConfigurationError, match="a handler must be a function"):
        orders.handler()(function)


def test_a_handler_that_cannot_be_called_with_a_row_is_refused(lite_shop: Shop) -> None:
    def with_nothing() -> None: ...
    def with_more(row: tenure.Row, more: int) -> None: ...
    def by_name(*, row: tenure.Row) -> None: ...

    with lite_shop.table() as orders:
        for function in (with_nothing, with_more, by_name):
            with pytest.raises(tenure.ConfigurationError, match="takes a row as its only argument"):
                orders.handler(function)


def test_a_job_is_no_row() -> None:
    with tenure.testing.claim() as run:
        for ask in (lambda: run.row, run.already_done):
            with pytest.raises(tenure.NoClaim, match="is not a row of a table"):
                ask()

    assert not run.found_done


def test_a_worker_keeps_on_with_rows_that_come_later(lite_shop: Shop) -> None:
    done: list[int] = []

    with lite_shop.table() as orders:
        orders.handler(lambda row: done.append(row.id))
        with orders.worker():
            lite_shop.given(2)
            until(lambda: len(done) == 2)

    assert sorted(done) == [1, 2]
