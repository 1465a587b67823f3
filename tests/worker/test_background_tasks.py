"""The background tasks of a worker: registration, scheduler and janitor."""

import logging
import threading
from datetime import datetime, timedelta

import pytest

import tenure
from tenure.backends.protocol import Backend
from tenure.core.operations import Purge
from tenure.testing import Clock, Harness
from tenure.worker.background_tasks import BackgroundTasks
from tenure.worker.janitor import MAX_BATCHES, Janitor
from tenure.worker.scheduler import MAX_SLEEP, Scheduler
from tests.worker.looking import DEADLINE, until


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(harness: Harness, clock: Clock) -> Backend:
    return harness.open(clock)


@pytest.fixture
def jobs(store: Backend) -> tenure.Jobs:
    return tenure.Jobs(store)


def scheduler_of(jobs: tenure.Jobs, store: Backend, name: str = "report") -> Scheduler:
    return Scheduler(store, jobs._periodic[name])


def slots_of(jobs: tenure.Jobs) -> list[datetime]:
    return sorted(job.run_at for job in jobs.find())


def test_each_slot_is_enqueued_once_however_many_workers_try(jobs: tenure.Jobs, store: Backend, clock: Clock) -> None:
    @jobs.cron("*/10 * * * *")
    def report() -> None: ...

    schedulers = [scheduler_of(jobs, store) for _ in range(3)]
    for scheduler in schedulers:
        scheduler.enqueue_due()
    for _ in range(6):
        clock.advance(300)
        for scheduler in schedulers:
            scheduler.enqueue_due()

    noon = Clock().now
    assert slots_of(jobs) == [noon + timedelta(minutes=10), noon + timedelta(minutes=20), noon + timedelta(minutes=30)]
    assert {job.id for job in jobs.find()} >= {"cron:report:2026-01-01T12:10:00Z"}
    assert {job.meta["slot"] for job in jobs.find()} >= {"2026-01-01T12:10:00+00:00"}


def test_a_slot_is_not_enqueued_again_when_its_job_was_purged(jobs: tenure.Jobs, store: Backend, clock: Clock) -> None:
    @jobs.cron("*/10 * * * *")
    def report() -> None: ...

    scheduler = scheduler_of(jobs, store)
    scheduler.enqueue_due()
    clock.advance(600)
    scheduler.enqueue_due()
    jobs.cancel(all=True)
    clock.advance(1)
    assert jobs.purge(older_than=0) == 1

    scheduler_of(jobs, store).enqueue_due()

    assert list(jobs.find()) == []


@pytest.mark.parametrize(("missed", "number"), [("skip", 0), ("last", 1), ("all", 6)])
def test_missed_slots_are_made_up_for_by_policy(
    jobs: tenure.Jobs, store: Backend, clock: Clock, missed: str, number: int
) -> None:
    @jobs.cron("*/10 * * * *", missed=missed)  # type: ignore[arg-type]
    def report() -> None: ...

    scheduler_of(jobs, store).enqueue_due()
    clock.advance(3600 + 120)
    scheduler_of(jobs, store).enqueue_due()

    assert len(slots_of(jobs)) == number


def test_a_schedule_is_looked_at_again_when_its_next_slot_is_due(
    jobs: tenure.Jobs, store: Backend, clock: Clock
) -> None:
    @jobs.cron("*/10 * * * *")
    def report() -> None: ...

    scheduler = scheduler_of(jobs, store)

    assert scheduler.enqueue_due() == MAX_SLEEP
    clock.advance(590)
    assert scheduler.enqueue_due() == 10


def test_more_missed_slots_than_one_request_takes_are_made_up_for_at_once(
    jobs: tenure.Jobs, store: Backend, clock: Clock
) -> None:
    @jobs.cron("* * * * *", missed="all")
    def report() -> None: ...

    scheduler = scheduler_of(jobs, store)
    scheduler.enqueue_due()
    clock.advance(60 * 1_500)

    assert scheduler.enqueue_due() == 0
    assert scheduler.enqueue_due() > 0
    assert len(slots_of(jobs)) == 1_500


def test_arguments_name_and_key_of_a_schedule(jobs: tenure.Jobs, store: Backend, clock: Clock) -> None:
    @jobs.cron("* * * * *", name="north", arguments={"region": "north"}, key="north")
    @jobs.cron("* * * * *", name="south", arguments={"region": "south"})
    @jobs.task(queue="reports")
    def report(region: str) -> None: ...

    for name in ("north", "south"):
        scheduler_of(jobs, store, name).enqueue_due()
    for _ in range(2):
        clock.advance(60)
        for name in ("north", "south"):
            scheduler_of(jobs, store, name).enqueue_due()

    assert sorted(job.payload["region"] for job in jobs.find(queue="reports")) == ["north", "south", "south"]


def test_a_schedule_that_cannot_be_used_is_refused_where_it_is_written(jobs: tenure.Jobs) -> None:
    @jobs.task
    def report(region: str) -> None: ...

    with pytest.raises(tenure.ConfigurationError, match="region"):
        jobs.cron("* * * * *")(report)
    with pytest.raises(tenure.ConfigurationError, match="61"):
        jobs.cron("61 * * * *", arguments={"region": "north"})(report)
    with pytest.raises(tenure.ConfigurationError, match="cron needs a function or a task"):
        jobs.cron("* * * * *")(7)  # type: ignore[call-overload]

    jobs.cron("* * * * *", arguments={"region": "north"})(report)
    jobs.cron("* * * * *", arguments={"region": "north"})(report)
    with pytest.raises(tenure.ConfigurationError, match="schedule 'report' exists already"):
        jobs.cron("* * * * *", arguments={"region": "south"})(report)


def test_a_worker_enqueues_and_runs_what_is_periodic(harness: Harness) -> None:
    with tenure.Jobs(harness.open()) as jobs:
        ran = threading.Event()

        @jobs.cron("* * * * * *")
        async def tick() -> None:
            ran.set()

        with jobs.worker(), jobs.worker():
            assert ran.wait(DEADLINE)
            until(lambda: len(list(jobs.find(state="completed"))) >= 2)

        slots = [job.run_at for job in jobs.find()]
        assert len(slots) == len(set(slots))


def test_finished_jobs_are_forgotten_after_their_time_each_state_after_its_own(
    jobs: tenure.Jobs, store: Backend, clock: Clock
) -> None:
    completed, failed, cancelled = (jobs.enqueue("work") for _ in range(3))
    claims = {claim.id: claim for claim in jobs.claim(limit=2)}
    claims[completed].complete()
    claims[failed].fail("no", final=True)
    jobs.cancel(cancelled)
    janitor = Janitor(store, tenure.Retention(completed=60, cancelled=timedelta(minutes=2), failed=None))

    left = []
    for _ in range(3):
        clock.advance(61)
        janitor.purge()
        left.append({job.state for job in jobs.find()})

    assert left == [{"failed", "cancelled"}, {"failed"}, {"failed"}]


def test_the_janitor_forgets_a_bounded_number_and_comes_again_soon() -> None:
    class Full:
        purges: list[Purge] = []  # noqa: RUF012 - the class has one instance

        def purge(self, purge: Purge) -> int:
            self.purges.append(purge)
            return purge.limit

    janitor = Janitor(Full(), tenure.Retention())  # type: ignore[arg-type]

    assert janitor.purge() < 2
    assert len(Full.purges) == 3 * MAX_BATCHES


def test_how_long_jobs_are_kept_is_checked() -> None:
    with pytest.raises(tenure.ConfigurationError, match="retention completed must be 0 to"):
        tenure.Retention(completed=-1)
    with pytest.raises(tenure.ConfigurationError, match="retention must be a Retention, not 60"):
        tenure.Jobs("memory://", retention=60)  # type: ignore[arg-type]


def test_a_duty_that_fails_is_tried_again_and_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tenure.worker.background_tasks.RETRY_DELAY", 0.001)
    tries, done = [], threading.Event()

    def fails() -> float:
        tries.append(1)
        if len(tries) < 5:
            raise ValueError("not yet")
        return DEADLINE

    def works() -> float:
        if len(tries) >= 5:
            done.set()
        return 0.001

    duties = BackgroundTasks([fails, works])
    thread = threading.Thread(target=duties.run)
    thread.start()
    assert done.wait(DEADLINE)
    duties.close()
    thread.join()

    assert caplog.text.count("background task failed, retrying") == 1


def test_a_duty_that_is_hurried_is_done_at_once() -> None:
    first, again = threading.Event(), threading.Event()

    def duty() -> float:
        (again if first.is_set() else first).set()
        return DEADLINE

    duties = BackgroundTasks([duty])
    thread = threading.Thread(target=duties.run)
    thread.start()
    assert first.wait(DEADLINE)
    duties.run_now(duty)

    assert again.wait(DEADLINE / 2)
    duties.close()
    thread.join()


def test_a_worker_that_stops_says_so_while_its_handlers_end(jobs: tenure.Jobs) -> None:
    began, gate = threading.Event(), threading.Event()

    @jobs.task
    def hold() -> None:
        began.set()
        assert gate.wait(DEADLINE)

    hold.enqueue()
    with jobs.worker(concurrency=3) as worker:
        assert began.wait(DEADLINE)
        assert [each.concurrency for each in jobs.workers()] == [3]

        worker.stop()
        until(lambda: [each.is_stopping for each in jobs.workers()] == [True])
        gate.set()


def test_a_store_that_is_away_is_not_told_by_every_duty(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def fails() -> float:
        duties.close()
        raise tenure.StoreUnavailable("away")

    duties = BackgroundTasks([fails])
    duties.run()

    assert caplog.text == ""
