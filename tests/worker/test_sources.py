"""One worker on several sources: stores and tables."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.client.keeper import ticks
from tenure.core.operations import Claimed, ClaimRequest
from tenure.worker import Worker
from tenure.worker.request_thread import RequestThread
from tenure.worker.started_jobs import StartedJobs, StartedJobsReader, job_ids_of_source, new_shared_file
from tenure.worker.store_retry import Request, RetryingStore
from tests.tables.client_shop import SQLiteShop
from tests.worker.looking import DEADLINE, until
from tests.worker.test_outage import Unreliable


class Slow(Memory):
    """A store that responds to a claim only when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()

    def claim(self, request: ClaimRequest) -> Claimed:
        if not self.may_answer.is_set():
            self.is_asked.set()
            self.may_answer.wait(2 * DEADLINE)
        return super().claim(request)


@pytest.fixture
def shop(tmp_path: Path) -> SQLiteShop:
    return SQLiteShop(tmp_path)


@pytest.fixture
def orders(shop: SQLiteShop) -> Iterator[tenure.Table[Any]]:
    with shop.table(backoff=tenure.Backoff(first=0), output=None) as orders:
        yield orders


@pytest.fixture
def store() -> Unreliable:
    return Unreliable()


@pytest.fixture
def jobs(store: Unreliable) -> Iterator[tenure.Jobs]:
    with tenure.Jobs(store, backoff=tenure.Backoff(first=0)) as jobs:
        yield jobs


def test_jobs_and_rows_are_run_by_one_worker_with_one_concurrency(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    running: set[str] = set()
    most: list[int] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        with lock:
            running.add(name)
            most.append(len(running))
        with lock:
            running.discard(name)

    @jobs.task
    def send(number: int) -> None:
        work(f"job {number}")

    @orders.handler
    async def invoice(row: tenure.Row) -> None:
        work(f"row {row.id}")

    shop.given(40)
    jobs.enqueue_many(send.job(number) for number in range(40))
    summary = tenure.work(jobs, orders, concurrency=3, drain=True)

    assert summary.completed == len(most) == 80
    assert max(most) <= 3
    assert jobs.stats().total("completed") == orders.stats().total("completed") == 40


def test_no_more_is_held_of_all_sources_than_of_one(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    held: list[int] = []

    def work() -> None:
        held.append(jobs.stats().total("running") + orders.stats().total("running"))

    jobs.task("send")(work)
    orders.handler(lambda row: work())  # noqa: ARG005
    shop.given(3)
    for _ in range(3):
        jobs.enqueue("send")
    tenure.work(jobs, orders, concurrency=1, drain=True)

    assert (held[0], len(held)) == (1, 6)


def test_of_sources_that_all_have_much_to_do_none_waits_for_another_to_be_done(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    seen: list[str] = []

    @jobs.task
    def send(number: int) -> None:  # noqa: ARG001
        seen.append("job")

    orders.handler(lambda row: seen.append("row"))  # noqa: ARG005
    shop.given(40)
    jobs.enqueue_many(send.job(number) for number in range(40))
    tenure.work(jobs, orders, concurrency=1, drain=True)

    last = len(seen) - 1
    assert seen.index("row") < last - seen[::-1].index("job")
    assert seen.index("job") < last - seen[::-1].index("row")


def test_sources_with_the_same_types_and_ids_are_told_apart(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    seen: list[str] = []

    @jobs.task("orders")
    def send(id: int) -> str:
        seen.append(f"job {id}")
        return "sent"

    @orders.handler
    def invoice(row: tenure.Row) -> str:
        seen.append(f"row {row.id}")
        return "invoiced"

    shop.given(2)
    for id in (1, 2):
        jobs.enqueue("orders", {"id": id}, id=str(id), queue="orders")
    tenure.work(orders, jobs, drain=True)

    assert sorted(seen) == ["job 1", "job 2", "row 1", "row 2"]
    assert [job.result for job in jobs.find()] == ["sent", "sent"]
    assert [job.result for job in orders.find()] == ["invoiced", "invoiced"]


def test_no_more_is_claimed_from_all_sources_than_can_run(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    begun, may_end = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        begun.release()
        may_end.wait(DEADLINE)

    jobs.task("send")(hold)
    orders.handler(lambda row: hold())  # noqa: ARG005
    shop.given(10)
    jobs.enqueue_many(tenure.NewJob("send") for _ in range(10))

    with Worker([jobs, orders], {"concurrency": 2}):
        for _ in range(2):
            begun.acquire(timeout=DEADLINE)
        claimed = jobs.stats().total("running") + orders.stats().total("running")
        may_end.set()

    assert claimed == 2


def test_sources_that_have_enough_to_do_take_turns(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    ran: list[str] = []
    jobs.task("send")(lambda: ran.append("job"))
    orders.handler(lambda row: ran.append("row"))  # noqa: ARG005
    shop.given(40)
    jobs.enqueue_many(tenure.NewJob("send") for _ in range(40))

    tenure.work(jobs, orders, concurrency=1, drain=True)

    assert set(ran[:40]) == {"job", "row"}
    assert ran.count("job") == ran.count("row") == 40


def test_a_source_that_has_nothing_is_not_asked_with_every_trip_to_another(
    orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    class Counted(Memory):
        claims = 0

        def claim(self, request: ClaimRequest) -> Claimed:
            self.claims += 1
            return super().claim(request)

    store, done = Counted(), list[int]()
    orders.handler(lambda row: done.append(row.id))
    with tenure.Jobs(store) as jobs:
        jobs.task("send")(lambda: None)
        with Worker([jobs, orders], {"concurrency": 1}):
            for _ in range(100):
                shop.given(1)
                until(lambda: not orders.stats().total("due"))
            until(lambda: len(done) == 100)

    assert store.claims < 50


def test_two_views_of_one_table_take_each_their_own_rows(shop: SQLiteShop) -> None:
    seen: list[tuple[str, int]] = []
    mine = shop.table(params={"source": "scraper"}, output=None)
    yours = shop.table(params={"source": "by hand"}, output=None)
    mine.handler(lambda row: seen.append(("mine", row.id)))
    yours.handler(lambda row: seen.append(("yours", row.id)))
    own, others = shop.given(3), shop.given(3, source="by hand")

    with mine, yours:
        tenure.work(mine, yours, drain=True, concurrency=2)

    assert sorted(seen) == [*(("mine", id) for id in own), *(("yours", id) for id in others)]


def test_rows_are_held_for_the_lease_of_their_table_and_jobs_for_that_of_the_worker(
    jobs: tenure.Jobs, shop: SQLiteShop
) -> None:
    held: dict[str, Any] = {}

    def note(name: str) -> None:
        job = tenure.current().job
        assert job.leased_until is not None
        assert job.started_at is not None
        held[name] = (job.leased_until - job.started_at).total_seconds()

    @jobs.task
    def send() -> None:
        note("job")

    shop.given(1)
    send.enqueue()
    with shop.table(lease=180, output=None) as orders:
        orders.handler(lambda row: note(f"row {row.id}"))
        tenure.work(jobs, orders, lease=20, drain=True)

    assert held == {"job": 20, "row 1": 180}


def test_a_source_that_does_not_answer_keeps_no_other_from_going_on(
    jobs: tenure.Jobs, store: Unreliable, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[int] = []

    @jobs.task
    def send() -> str:
        begun.set()
        may_end.wait(DEADLINE)
        return "sent"

    orders.handler(lambda row: done.append(row.id))
    id = send.enqueue()

    with Worker([jobs, orders], {"concurrency": 2}) as worker:
        begun.wait(DEADLINE)
        store.is_cut = store.loses_answers = True
        may_end.set()
        until(lambda: store.tries > 2)
        shop.given(30)
        until(lambda: orders.stats().total("completed") == 30)
        failing = worker.status().is_store_failing
        store.is_cut = False
        result = send.result(id, timeout=DEADLINE)
        until(lambda: not worker.status().is_store_failing)

    assert failing
    assert sorted(done) == list(range(1, 31))
    assert result == "sent"
    assert worker.summary.completed == 31
    assert worker.summary.lost == 0


def test_a_source_that_takes_long_to_answer_keeps_no_other_from_going_on(
    orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    store = Slow()

    with tenure.Jobs(store) as jobs:

        @jobs.task
        def send() -> str:
            return "sent"

        orders.handler(lambda row: row.id)
        with Worker([jobs, orders], {"concurrency": 2}) as worker:
            store.may_answer.clear()
            id = send.enqueue()
            store.is_asked.wait(DEADLINE)
            shop.given(30)
            until(lambda: orders.stats().total("completed") == 30)
            store.may_answer.set()
            result = send.result(id, timeout=DEADLINE)

    assert result == "sent"
    assert worker.summary.completed == 31


def test_what_a_source_gives_when_nobody_asks_any_more_is_given_back() -> None:
    store = Slow()
    store.may_answer.clear()

    with tenure.Jobs(store) as jobs:
        id = jobs.enqueue("send")
        asker = RequestThread(RetryingStore(store), lambda: None)
        request = ClaimRequest(limit=1, lease=60, worker="worker", token="token")
        answer = asker.send(Request(settlements=[], claim_request=request, sent_at=ticks()))
        asker.close()
        store.may_answer.set()
        until(lambda: [each.outcome for each in _job(jobs, id).history] == ["released"])

        assert answer is None
        assert _job(jobs, id).state == "queued"


def test_jobs_that_were_taken_when_the_answer_was_lost_are_run_once_it_is_back(
    jobs: tenure.Jobs, store: Unreliable, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    sent: list[int] = []

    @jobs.task
    def send(number: int) -> None:
        sent.append(number)

    orders.handler(lambda row: row.id)
    store.is_cut = store.loses_answers = True
    shop.given(3)

    with Worker([orders, jobs], {}) as worker:
        jobs.enqueue_many(send.job(number) for number in range(5))
        until(lambda: orders.stats().total("completed") == 3 and store.cut_claims > 1)
        store.is_cut = False
        until(lambda: len(sent) == 5)

    assert sorted(sent) == list(range(5))
    assert jobs.stats().total("completed") == 5
    assert max(job.attempts for job in jobs.find()) == 1
    assert worker.summary.completed == 8


def test_draining_waits_for_a_source_that_is_away(
    jobs: tenure.Jobs, store: Unreliable, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    @jobs.task
    def send() -> None: ...

    @orders.handler
    def invoice(row: tenure.Row) -> None:  # noqa: ARG001
        threading.Timer(0.2, lambda: setattr(store, "is_cut", False)).start()

    send.enqueue()
    shop.given(1)
    store.is_cut = True
    summary = tenure.work(jobs, orders, drain=True)

    assert summary.completed == 2


def test_a_row_that_may_crash_only_once_more_runs_with_nothing_beside_it(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    beside: list[set[str]] = []
    running: set[str] = set()
    (suspect,) = shop.given(1)
    for _ in range(2):
        orders.claim(worker="dead")
        orders.reap(worker="dead")

    def run(name: str) -> None:
        running.add(name)
        beside.append(running - {name} if name == f"row {suspect}" else set())
        running.discard(name)

    @jobs.task
    async def send(number: int) -> None:
        running.add(f"job {number}")
        await asyncio.sleep(0)
        running.discard(f"job {number}")

    orders.handler(lambda row: run(f"row {row.id}"))
    jobs.enqueue_many(send.job(number) for number in range(20))
    summary = tenure.work(jobs, orders, concurrency=4, drain=True)

    assert orders.get(suspect).state == "completed"  # type: ignore[union-attr]
    assert beside == [set()]
    assert summary.completed == 21


def test_what_was_started_is_written_down_with_its_source(
    jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop
) -> None:
    may_end = threading.Event()
    file = new_shared_file()
    reader = StartedJobsReader(file)

    @jobs.task
    def send() -> None:
        may_end.wait(DEADLINE)

    @orders.handler
    async def invoice(row: tenure.Row) -> None:  # noqa: ARG001
        while not may_end.is_set():  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.01)

    shop.given(1)
    jobs.enqueue("send", id="1")
    with Worker([jobs, orders], {}, started_jobs=StartedJobs(file)):
        until(lambda: len(reader.unfinished_entries() or ()) == 2)
        started = reader.unfinished_entries() or []
        may_end.set()

    assert (job_ids_of_source(0, started), job_ids_of_source(1, started), job_ids_of_source(2, started)) == (
        ["1"],
        ["1"],
        [],
    )
    assert reader.unfinished_entries() == []
    reader.close()
    os.close(file)


def test_an_id_that_is_too_long_for_the_ledger_makes_it_unknown_what_was_started(shop: SQLiteShop) -> None:
    file = new_shared_file()
    reader = StartedJobsReader(file)
    shop.rows("create table files (id text primary key, state text default 'queued')")
    shop.rows("insert into files (id) values (printf('%.2000c', 'x'))")
    entries: list[object] = []

    with tenure.Table(shop.url, "files") as files:
        files.migrate()
        files.handler(lambda row: entries.append((len(row.id), reader.unfinished_entries())))
        with Worker(files, {"drain": True}, started_jobs=StartedJobs(file)) as worker:
            worker.join()

    assert entries == [(2_000, None)]
    reader.close()
    os.close(file)


def test_a_worker_of_several_is_shown_in_each_registry_with_what_it_runs_there(
    jobs: tenure.Jobs, shop: SQLiteShop
) -> None:
    with tenure.Jobs(shop.url) as other, shop.table(other) as orders:
        jobs.task("send")(lambda: None)
        orders.handler(lambda row: row)
        with Worker([jobs, orders], {"queues": "mail"}):
            (known,), (there,) = jobs.workers(), other.workers()

    assert (known.types, known.queues) == (("send",), ("mail",))
    assert (there.types, there.queues) == (("orders",), ("orders",))
    assert known.name == there.name


def test_the_twins_of_sources_stand_for_them(jobs: tenure.Jobs, orders: tenure.Table[Any], shop: SQLiteShop) -> None:
    from tenure.client import aio

    done: list[object] = []
    jobs.task("send")(lambda: done.append("sent"))
    orders.handler(lambda row: done.append(row.id))
    shop.given(1)
    jobs.enqueue("send")

    async def main() -> None:
        summary = await aio.work(jobs.aio, orders.aio, drain=True)
        assert summary.completed == 2
        shop.given(1)
        async with aio.worker(jobs, orders):
            while len(done) < 3:  # noqa: ASYNC110 - changed by a thread
                await asyncio.sleep(0.01)

    asyncio.run(main())

    assert set(done) == {"sent", 1, 2}


def test_a_worker_whose_table_is_closed_ends_and_says_so(orders: tenure.Table[Any]) -> None:
    orders.handler(lambda row: row)
    worker = orders.worker()
    worker.start()

    orders.close()

    with pytest.raises(tenure.StoreUnavailable, match="is closed"):
        worker.join()


def test_what_cannot_be_worked_for_is_refused(jobs: tenure.Jobs, orders: tenure.Table[Any]) -> None:
    jobs.task("send")(lambda: None)
    orders.handler(lambda row: row)

    with pytest.raises(tenure.ConfigurationError, match="a worker needs at least one source"):
        tenure.work()
    with pytest.raises(tenure.ConfigurationError, match="a worker needs a Jobs or a Table, not 7"):
        tenure.work(7)  # type: ignore[arg-type]
    with pytest.raises(tenure.ConfigurationError, match="was passed twice"):
        tenure.work(orders, orders.aio)
    with pytest.raises(tenure.UnknownTask, match=r"type 'sent'.*did you mean 'send'"):
        tenure.work(jobs, orders, types="sent")


def test_a_jobs_that_has_none_of_the_types_is_not_asked() -> None:
    store = Memory()
    with tenure.Jobs(store) as jobs, tenure.Jobs("memory://") as others:
        done: list[str] = []
        jobs.task("send")(lambda: done.append("sent"))
        others.task("report")(lambda: done.append("reported"))
        jobs.enqueue("send")
        others.enqueue("report")

        tenure.work(jobs, others, types="report", drain=True)

    assert done == ["reported"]


def _job(jobs: tenure.Jobs, id: str) -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job
