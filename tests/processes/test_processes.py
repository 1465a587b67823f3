"""Workers as processes: stopped, killed, frozen, crashed by a job, and cut off from their store."""

import signal
from pathlib import Path

import pytest

import tenure
from tenure import Outcome, State
from tenure.client.transaction import require_transactional
from tests.processes.conftest import SERVERS
from tests.processes.crew import Crew, crew_on
from tests.processes.grounds import SQLITE, Ground
from tests.processes.outages import fading, outages_of, proxied, sit_out
from tests.processes.scenes import play
from tests.processes.stage import PATIENCE, Stage, stage_on, until
from tests.processes.verdict import verdict_of_runs
from tests.proxies.points import before, from_server
from tests.servers.servers import Servers
from tests.tiers import only_in_all

whatever_the_store = pytest.mark.parametrize("ground", [SQLITE], indirect=True)
"""For tests whose result does not depend on the store."""


def job_of(jobs: tenure.Jobs, id: str) -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job


def outcomes(job: tenure.Job) -> list[Outcome]:
    return [ending.outcome for ending in job.history]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_end_waits_for_its_handlers_and_ends_well(
    stage: Stage, jobs: tenure.Jobs, crew: Crew, number: signal.Signals
) -> None:
    jobs.enqueue_many([tenure.NewJob("hold", id="sync"), tenure.NewJob("hold_async", id="async")])
    worker = crew.start()
    until(lambda: len(stage.told("began")) == 2)

    worker.send(number)
    worker.says("stopping; running jobs: 2")
    jobs.enqueue("quick", id="later")
    stage.gate.touch()

    assert worker.code() == 0
    assert [job_of(jobs, id).state for id in ("sync", "async", "later")] == ["completed", "completed", "queued"]
    assert job_of(jobs, "sync").result == worker.pid
    assert worker.summary()["completed"] == 2


def test_a_worker_that_ends_gives_back_at_once_what_it_has_not_begun(
    stage: Stage, jobs: tenure.Jobs, crew: Crew
) -> None:
    jobs.enqueue_many(tenure.NewJob("quick") for _ in range(500))
    jobs.enqueue("hold", id="held")
    jobs.enqueue_many(tenure.NewJob("quick", queue="behind") for _ in range(500))
    worker = crew.start(concurrency=1)
    until(lambda: "held" in {line.id for line in stage.told("began")})
    until(lambda: jobs.stats().total("running", queue="behind"))

    worker.send(signal.SIGTERM)
    until(lambda: not jobs.stats().total("running", queue="behind"))

    given_back = [job for job in jobs.find(queue="behind") if job.fence]
    assert job_of(jobs, "held").state is State.RUNNING
    assert given_back
    assert {(job.state, job.attempts, job.crashes) for job in given_back} == {(State.QUEUED, 0, 0)}
    assert all(set(outcomes(job)) == {Outcome.RELEASED} for job in given_back)
    stage.gate.touch()
    assert worker.code() == 0
    assert job_of(jobs, "held").state is State.COMPLETED


@whatever_the_store
def test_what_a_worker_claims_while_it_is_told_to_end_is_not_lost(stage: Stage, jobs: tenure.Jobs, crew: Crew) -> None:
    jobs.enqueue("hold", id="held")
    worker = crew.start(concurrency=20)
    until(lambda: stage.told("began"))

    with require_transactional(jobs._backend).transaction() as connection:
        stage.gate.touch()
        until(lambda: stage.told("ended"))
        jobs.enqueue_many((tenure.NewJob("quick", queue="late") for _ in range(10)), connection=connection)
        worker.send(signal.SIGTERM)

    assert worker.code() == 0
    assert job_of(jobs, "held").state is State.COMPLETED
    assert {(job.state, job.attempts) for job in jobs.find(queue="late")} <= {("queued", 0), ("completed", 1)}


@only_in_all
@pytest.mark.parametrize("store", SERVERS)
def test_what_a_server_gave_to_a_worker_that_is_told_to_end_is_not_lost(
    folder: Path, servers: Servers, store: str
) -> None:
    with proxied(store, servers) as way, tenure.Jobs(way.straight) as jobs:
        stage = stage_on(way.url, folder)
        with crew_on(stage) as crew:
            jobs.enqueue("quick", id="first")
            worker = crew.start(concurrency=20)
            jobs.wait_for("first", timeout=PATIENCE)

            with way.proxy.holding(before(from_server("late-"))) as hold:
                jobs.enqueue_many(tenure.NewJob("quick", id=f"late-{n}", queue="late") for n in range(10))
                hold.wait()
                worker.send(signal.SIGTERM)

            assert worker.code() == 0
        assert {(job.state, job.attempts) for job in jobs.find(queue="late")} <= {("queued", 0), ("completed", 1)}


@only_in_all
@whatever_the_store
def test_after_the_grace_handlers_are_stopped_and_their_jobs_given_back(
    stage: Stage, jobs: tenure.Jobs, crew: Crew
) -> None:
    ids = ["hold", "hold_async", "sleep_on"]
    jobs.enqueue_many(tenure.NewJob(id, id=id) for id in ids)
    worker = crew.start(grace=0.3)
    until(lambda: len(stage.told("began")) == 3)

    worker.send(signal.SIGTERM)

    assert worker.code() == 0
    assert [line.id for line in stage.told("interrupted")] == ["hold"]
    assert [line.id for line in stage.told("cancelled")] == ["hold_async"]
    given_back = [job_of(jobs, id) for id in ids]
    assert [(job.state, job.attempts) for job in given_back] == [(State.QUEUED, 0)] * 3
    assert [outcomes(job) for job in given_back] == [[Outcome.RELEASED]] * 3


@whatever_the_store
def test_a_closed_terminal_ends_a_worker_in_good_order(stage: Stage, jobs: tenure.Jobs, crew: Crew) -> None:
    jobs.enqueue("hold", id="hold")
    worker = crew.start()
    until(lambda: stage.told("began"))

    worker.send(signal.SIGHUP)
    worker.says("stopping; running jobs: 1")
    stage.gate.touch()

    assert worker.code() == 0
    assert job_of(jobs, "hold").state is State.COMPLETED


@only_in_all
@whatever_the_store
def test_a_second_signal_ends_the_grace(stage: Stage, jobs: tenure.Jobs, crew: Crew) -> None:
    jobs.enqueue_many([tenure.NewJob("hold", id="sync"), tenure.NewJob("hold_async", id="async")])
    worker = crew.start(grace=3600)
    until(lambda: len(stage.told("began")) == 2)

    worker.send(signal.SIGTERM)
    worker.says("stopping; running jobs: 2")
    worker.send(signal.SIGTERM)

    assert worker.code() == 0
    assert worker.summary()["released"] == 2
    assert [(job.state, job.attempts) for job in jobs.find()] == [(State.QUEUED, 0)] * 2


@only_in_all
@whatever_the_store
def test_a_signal_that_does_not_interrupt_the_main_thread_is_noticed(jobs: tenure.Jobs, crew: Crew) -> None:
    jobs.enqueue("quick", id="first")
    worker = crew.start()
    jobs.wait_for("first", timeout=PATIENCE)

    jobs.enqueue("receive_a_signal", id="job")

    assert worker.code() == 0
    assert job_of(jobs, "job").state is State.COMPLETED


@only_in_all
@whatever_the_store
def test_a_handler_that_blocks_the_event_loop_does_not_keep_a_worker_from_ending(
    stage: Stage, jobs: tenure.Jobs, crew: Crew
) -> None:
    """Slow: the worker waits for a blocked event loop."""
    jobs.enqueue("block_the_loop", {"seconds": 3600}, id="blocking")
    worker = crew.start(grace=0.3)
    until(lambda: stage.told("began"))

    worker.send(signal.SIGTERM)

    assert worker.code() == 0
    job = job_of(jobs, "blocking")
    assert (job.state, job.attempts, outcomes(job)) == (State.QUEUED, 0, [Outcome.RELEASED])


def test_the_job_of_a_killed_worker_runs_again_and_its_history_says_why(
    stage: Stage, jobs: tenure.Jobs, crew: Crew
) -> None:
    jobs.enqueue("hold", id="job")
    killed = crew.start(lease=2, name="first")
    until(lambda: stage.told("began"))

    killed.kill()
    other = crew.start(name="second")
    until(lambda: len(stage.told("began")) == 2)
    stage.gate.touch()
    job = jobs.wait_for("job", timeout=PATIENCE)

    (ending,) = job.history
    assert (job.result, job.fence, job.attempts, job.crashes) == (other.pid, 2, 2, 1)
    assert (ending.outcome, ending.fence) == (Outcome.EXPIRED, 1)
    assert ending.worker is not None
    assert ending.error is not None
    assert ending.worker.startswith("first@")
    assert ending.worker in ending.error
    assert f"pid {killed.pid}" in ending.error


@whatever_the_store
@pytest.mark.parametrize(("poison", "code"), [pytest.param("leave", 1, marks=only_in_all), ("crash", -signal.SIGSEGV)])
def test_a_job_that_kills_its_worker_fails_after_three_crashes_and_takes_no_other_along(
    jobs: tenure.Jobs, crew: Crew, poison: str, code: int
) -> None:
    """Slow: four workers start one after the other, and three leases expire."""
    jobs.enqueue_many(tenure.NewJob("quick") for _ in range(300))
    jobs.enqueue(poison, id="poison", max_crashes=3)
    jobs.enqueue_many(tenure.NewJob("quick", max_crashes=3) for _ in range(300))

    victims = []
    for _ in range(3):
        victims.append(crew.start(lease=2, concurrency=1))
        assert victims[-1].code() == code
    survivor = crew.start(concurrency=1)
    until(lambda: jobs.stats().total("completed") == 600)
    until(lambda: job_of(jobs, "poison").state is State.FAILED)

    failed = job_of(jobs, "poison")
    assert (failed.attempts, failed.crashes) == (3, 3)
    assert all(f"pid {each.pid}" in error for each, error in zip(victims, failed.errors, strict=True))
    assert any(job.crashes for job in jobs.find(type="quick"))
    survivor.send(signal.SIGTERM)
    assert survivor.code() == 0


@only_in_all
@whatever_the_store
def test_jobs_that_run_beside_one_that_kills_its_worker_are_not_failed_by_it(jobs: tenure.Jobs, crew: Crew) -> None:
    """Slow: workers start one after the other, and their leases expire."""
    ids = jobs.enqueue_many(tenure.NewJob("last_a_second", max_crashes=3) for _ in range(2))
    jobs.enqueue("leave", id="poison", max_crashes=3)
    ids += jobs.enqueue_many(tenure.NewJob("last_a_second", max_crashes=3) for _ in range(1))

    while job_of(jobs, "poison").state is not State.FAILED or jobs.stats().total("completed") < 3:
        worker = crew.start(lease=2, concurrency=4)
        until(lambda: worker.has_ended() or jobs.stats().total("running") + jobs.stats().total("due") == 0)  # noqa: B023
        worker.kill()

    assert [job_of(jobs, id).state for id in ids] == [State.COMPLETED] * 3
    assert job_of(jobs, "poison").crashes == 3


def test_a_child_that_a_handler_forked_can_be_ended(jobs: tenure.Jobs, crew: Crew) -> None:
    id = jobs.enqueue("end_a_child")
    crew.start()

    assert jobs.wait_for(id, timeout=PATIENCE).result == -signal.SIGTERM


def test_a_child_that_comes_back_from_its_handler_runs_no_jobs(jobs: tenure.Jobs, crew: Crew, stage: Stage) -> None:
    ids = jobs.enqueue_many(tenure.NewJob("quick") for _ in range(500))
    id = jobs.enqueue("fork_and_return")
    ids += jobs.enqueue_many(tenure.NewJob("quick") for _ in range(500))
    worker = crew.start(concurrency=1)

    assert jobs.wait_for(id, timeout=PATIENCE).result == "from the parent"
    until(lambda: jobs.stats().total("completed") == 1_001)
    assert sorted(line.id for line in stage.told("began")) == sorted(ids)
    assert {line.pid for line in stage.told("began")} == {worker.pid}


@only_in_all
@whatever_the_store
def test_a_job_that_asks_for_too_much_memory_fails_and_its_worker_goes_on(jobs: tenure.Jobs, crew: Crew) -> None:
    jobs.enqueue("hoard", id="hoard", max_attempts=1)
    worker = crew.start()
    until(lambda: job_of(jobs, "hoard").state is State.FAILED)

    jobs.enqueue("quick", id="after")
    jobs.wait_for("after", timeout=PATIENCE)

    job = job_of(jobs, "hoard")
    assert (job.attempts, job.crashes, outcomes(job)) == (1, 0, [Outcome.FAILED])
    assert "MemoryError" in job.errors[0]
    worker.send(signal.SIGTERM)
    assert worker.code() == 0


@only_in_all
def test_fifty_restarts_under_load_lose_nothing_and_cost_no_attempt(stage: Stage, ground: Ground) -> None:
    """Slow: fifty workers start sequentially."""
    seen = play("restarts", stage, 5_000, 50)

    found = verdict_of_runs(stage, ground)
    assert seen == {"restarted": [0] * 50, "ended": [0] * 3}
    assert found["states"] == {"completed": 5_000}
    assert found["attempts burnt"] == 0
    assert found["never ran"] == 0
    assert found["ran more than once"] == 0
    assert set(found["happened"]) <= {"enqueued", "claimed", "released", "completed"}
    assert found["happened"]["completed"] == 5_000
    assert found["is whole"]


@only_in_all
def test_thirty_kills_under_load_lose_nothing_and_each_second_run_has_its_reason(stage: Stage, ground: Ground) -> None:
    """Slow: thirty workers are killed and replaced, and leases expire."""
    seen = play("kills", stage, 3_000, 30)

    found = verdict_of_runs(stage, ground)
    assert seen == {"killed": [-signal.SIGKILL] * 30, "ended": [0] * 3}
    assert found["states"] == {"completed": 3_000}
    assert found["happened"]["completed"] == 3_000
    assert found["never ran"] == 0
    assert found["ran more than once"] > 0
    assert found["ran again without a reason"] == []
    assert found["crashes"] == found["happened"]["expired"] > 0
    assert found["is whole"]


def test_the_late_result_of_a_frozen_worker_is_refused(stage: Stage, jobs: tenure.Jobs, crew: Crew) -> None:
    jobs.enqueue("hold", id="job")
    frozen = crew.start(lease=2)
    until(lambda: stage.told("began"))

    frozen.freeze()
    other = crew.start()
    until(lambda: len(stage.told("began")) == 2)
    stage.gate.touch()
    jobs.wait_for("job", timeout=PATIENCE)
    frozen.send(signal.SIGCONT)
    until(lambda: len(stage.told("ended")) == 2)
    frozen.send(signal.SIGTERM)

    job = job_of(jobs, "job")
    assert frozen.code() == 0
    assert (frozen.summary()["completed"], frozen.summary()["lost"]) == (0, 1)
    assert (job.result, job.fence, outcomes(job)) == (other.pid, 2, [Outcome.EXPIRED])


@pytest.mark.parametrize("kind", ["block_the_loop", pytest.param("burn", marks=only_in_all)])
def test_a_handler_that_lets_nothing_else_run_for_longer_than_its_lease_keeps_its_job(
    jobs: tenure.Jobs, crew: Crew, kind: str
) -> None:
    """Slow: a handler blocks its process for longer than a lease."""
    # Two seconds longer than the lease: the second worker claims every second.
    jobs.enqueue(kind, {"seconds": 7}, id="job")
    busy, rival = crew.start(lease=5), crew.start(lease=5)

    job = jobs.wait_for("job", timeout=PATIENCE)

    assert (job.fence, job.attempts, job.history) == (1, 1, ())
    for each in (busy, rival):
        each.send(signal.SIGTERM)
        assert each.code() == 0


@pytest.mark.parametrize(
    ("store", "outage"),
    [
        *((SQLITE, outage) for outage in outages_of(SQLITE)),
        *(pytest.param(store, outage, marks=only_in_all) for store in SERVERS for outage in outages_of(store)),
    ],
)
def test_a_worker_tells_once_that_its_store_is_gone_and_goes_on_when_it_is_back(
    folder: Path, servers: Servers, store: str, outage: str
) -> None:
    """Slow: the store is unavailable for a second, and the worker backs off."""
    with fading(store, outage, folder, servers) as made:
        seen = sit_out(stage_on(made.url, folder), made.away, seconds=1)

    assert (seen["went"], seen["came"], seen["errors"]) == (1, 1, [])
    assert seen["attempts"] == {"before": 1, "after": 1}
    assert seen["code"] == 0
