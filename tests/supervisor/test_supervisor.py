"""A supervisor with real child processes: dying, killed, frozen, replaced and stopped."""

import os
import signal
import sys

import pytest

import tenure
from tenure import Outcome, State
from tenure.cli.demo.crew import wait_until_stopped
from tenure.supervisor import ExitReason
from tests.processes.stage import PATIENCE, Stage, until
from tests.supervisor.program import plan_on, refusal_on
from tests.supervisor.shift import office_on, shift_of
from tests.tiers import only_in_all

A_LONG_LEASE = 600
"""Seconds. No lease expires during a test: every reaped claim was reaped by the supervisor."""
LEAVER = """
import pathlib, signal, tenure.supervisor

def leave(number, frame):
    link.started_jobs.mark_clean_exit()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)

link = tenure.supervisor.take_supervisor_link()
link.started_jobs.write_name("leaver")
signal.signal(signal.SIGTERM, leave)
pathlib.Path("{gate}").touch()
while True:
    signal.pause()
"""


def job_of(jobs: tenure.Jobs, id: str) -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job


def outcomes(job: tenure.Job) -> list[Outcome]:
    return [ending.outcome for ending in job.history]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def read_pid(stage: Stage) -> int:
    told = (stage.folder / "another").read_text() if (stage.folder / "another").exists() else ""
    return int(told or 0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until_stopped(pid)


def is_all_done(jobs: tenure.Jobs) -> bool:
    return all(row.due + row.scheduled + row.running == 0 for row in jobs.stats().rows)


def are_all_settled_but(jobs: tenure.Jobs, number: int) -> bool:
    """Return whether all jobs are settled except `number` jobs that cannot end."""
    return jobs.stats().total("running", queue="default") == number


def test_of_a_killed_child_the_started_jobs_have_crashed_at_once_and_the_buffered_are_released(
    stage: Stage, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    held = ["one", "two"]
    jobs.enqueue_many(tenure.NewJob("quick") for _ in range(500))
    jobs.enqueue_many(tenure.NewJob("hold", id=id) for id in held)
    jobs.enqueue_many(tenure.NewJob("quick", queue="behind") for _ in range(500))
    with shift_of(plan_on(stage, {"concurrency": 2, "lease": A_LONG_LEASE})) as shift:
        until(lambda: len(stage.told("began")) == 502 and are_all_settled_but(jobs, 2))
        until(lambda: jobs.stats().total("running", queue="behind"))
        (pid,) = {line.pid for line in stage.told("began")}

        freeze(pid)
        buffered = [job.id for job in jobs.find(queue="behind", state="running")]
        os.kill(pid, signal.SIGKILL)
        until(lambda: len(stage.told("began")) == 504)

        crashed = [job_of(jobs, id) for id in held]
        released = [job_of(jobs, id) for id in buffered]
        assert [(job.crashes, job.attempts, outcomes(job)) for job in crashed] == [(1, 2, [Outcome.EXPIRED])] * 2
        assert buffered
        assert {(job.crashes, job.attempts, job.state) for job in released} == {(0, 0, State.QUEUED)}
        assert all(set(outcomes(job)) == {Outcome.RELEASED} for job in released)
        assert shift.condition.deaths == 1
        stage.gate.touch()
        until(lambda: is_all_done(jobs))
    assert {job.state for job in jobs.find()} == {State.COMPLETED}
    (line,) = [line for line in caplog.messages if "SIGKILL" in line]
    assert line.startswith(f"worker process {pid} (")
    assert line.endswith("started jobs: 2")


@only_in_all
def test_what_a_handler_of_a_dead_child_has_started_ends_with_it(stage: Stage, jobs: tenure.Jobs) -> None:
    jobs.enqueue("start_another", max_attempts=1)
    with shift_of(plan_on(stage, {"concurrency": 1, "lease": A_LONG_LEASE})):
        line = until(lambda: stage.told("began"))[0]
        other = until(lambda: read_pid(stage))

        os.kill(line.pid, signal.SIGKILL)

        until(lambda: not is_alive(other))


@only_in_all
def test_children_that_die_at_the_same_time_are_all_replaced(stage: Stage, jobs: tenure.Jobs) -> None:
    """Slow: two children start twice."""
    jobs.enqueue_many(tenure.NewJob("hold") for _ in range(2))
    with shift_of(plan_on(stage, {"concurrency": 1, "lease": A_LONG_LEASE}, processes=2)) as shift:
        until(lambda: len(stage.told("began")) == 2)

        for line in stage.told("began"):
            os.kill(line.pid, signal.SIGKILL)
        until(lambda: len(stage.told("began")) == 4)

        assert shift.condition.deaths == 2
        assert [job.crashes for job in jobs.find()] == [1, 1]
        assert len({line.pid for line in stage.told("began")}) == 4
        stage.gate.touch()
        until(lambda: is_all_done(jobs))


@only_in_all
def test_if_the_jobs_of_a_dead_child_cannot_be_taken_back_that_is_told_and_it_is_replaced(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with shift_of(plan_on(stage, {}, reap_command=python("raise SystemExit(9)"))) as shift:
        (pid,) = shift.ready()

        os.kill(pid, signal.SIGKILL)
        shift.other_than(pid)

    assert len([line for line in caplog.messages if "not reaped" in line and "(9)" in line]) == 1


def test_it_gives_up_if_the_first_child_refuses_to_start(stage: Stage) -> None:
    with shift_of(plan_on(stage, {}, processes=2, command=python("raise SystemExit(2)"))) as shift:
        ending = shift.ending()

    assert (ending.reason, ending.deaths) == (ExitReason.START_REJECTED, 1)


@only_in_all
def test_it_gives_up_if_the_first_child_has_died_three_times_before_it_came_to_run(stage: Stage) -> None:
    with shift_of(plan_on(stage, {}, processes=2, command=python("raise SystemExit(1)"))) as shift:
        ending = shift.ending()

    assert (ending.reason, ending.deaths) == (ExitReason.NEVER_READY, 3)


def test_it_gives_up_if_there_is_no_such_program(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with shift_of(plan_on(stage, {}, command=[str(stage.folder / "nothing")])) as shift:
        ending = shift.ending()

    assert ending.reason is ExitReason.NEVER_READY
    assert len([line for line in caplog.messages if "worker process not started" in line]) == 3


@only_in_all
def test_it_never_gives_up_once_a_child_came_to_run(stage: Stage) -> None:
    """Slow: the delay between restarts of a child grows."""
    with shift_of(plan_on(stage, {})) as shift:
        (pid,) = shift.ready()

        refusal_on(stage).touch()
        os.kill(pid, signal.SIGKILL)
        until(lambda: shift.condition.deaths == 2)
        refusal_on(stage).unlink()

        shift.other_than(pid)
        assert shift.end().reason is ExitReason.STOPPED


@only_in_all
def test_replacing_children_after_so_many_jobs_loses_nothing_and_charges_nobody(
    stage: Stage, jobs: tenure.Jobs
) -> None:
    """Slow: children are replaced repeatedly, one second apart."""
    jobs.enqueue_many(tenure.NewJob("load") for _ in range(1_200))
    options = {"concurrency": 1, "lease": A_LONG_LEASE}
    with shift_of(plan_on(stage, options, processes=2, max_jobs=100)) as shift:
        first = shift.ready(2)
        shift.other_than(*first)
        until(lambda: is_all_done(jobs))
        ending = shift.end()

    assert (ending.deaths, ending.killed, ending.summary.completed) == (0, 0, 1_200)
    assert {(job.state, job.attempts, job.crashes) for job in jobs.find()} == {(State.COMPLETED, 1, 0)}


@only_in_all
def test_children_are_replaced_one_at_a_time(stage: Stage, jobs: tenure.Jobs) -> None:
    """Slow: children are replaced sequentially, with a second between them."""
    jobs.enqueue_many(tenure.NewJob("hold") for _ in range(2))
    with shift_of(plan_on(stage, {"concurrency": 1}, processes=3, max_memory=1)) as shift:
        until(lambda: len(stage.told("began")) == 2)
        until(lambda: any(each.is_stopping for each in shift.condition.workers))

        # Two jobs of one second: the supervisor checks the other children meanwhile.
        jobs.enqueue_many(tenure.NewJob("last_a_second", id=id) for id in ("first", "second"))
        jobs.wait_for("second", timeout=PATIENCE)

        assert [each.is_stopping for each in shift.condition.workers].count(True) == 1
        stage.gate.touch()


@only_in_all
def test_a_child_that_takes_too_much_memory_is_replaced_without_harm(stage: Stage, jobs: tenure.Jobs) -> None:
    """Slow: the supervisor checks memory once a second."""
    jobs.enqueue("hold", id="beside")
    options = {"concurrency": 2, "lease": A_LONG_LEASE}
    with shift_of(plan_on(stage, options, max_memory=150 << 20)) as shift:
        until(lambda: stage.told("began"))
        jobs.enqueue("keep_memory", id="greedy")
        pid = jobs.wait_for("greedy", timeout=PATIENCE).result
        until(lambda: any(each.is_stopping for each in shift.condition.workers))
        stage.gate.touch()
        other = shift.other_than(pid)

        assert shift.ready() == [other]
        assert shift.condition.deaths == 0
    beside = job_of(jobs, "beside")
    assert (beside.state, beside.attempts, beside.result) == (State.COMPLETED, 1, pid)


@only_in_all
def test_a_run_that_takes_longer_than_the_grace_is_not_broken_off_to_replace_its_child(
    stage: Stage, jobs: tenure.Jobs
) -> None:
    """Slow: a run lasts longer than the grace period."""
    jobs.enqueue("hold", id="beside")
    options = {"concurrency": 2, "lease": A_LONG_LEASE, "grace": 0.1}
    with shift_of(plan_on(stage, options, max_memory=150 << 20, kill_margin=0.1)) as shift:
        until(lambda: stage.told("began"))
        jobs.enqueue("keep_memory", id="greedy")
        pid = jobs.wait_for("greedy", timeout=PATIENCE).result
        until(lambda: any(each.is_stopping for each in shift.condition.workers))

        with pytest.raises(TimeoutError):
            jobs.wait_for("beside", timeout=4.0)
        stage.gate.touch()
        shift.other_than(pid)

        assert shift.condition.deaths == 0
    beside = job_of(jobs, "beside")
    assert (beside.state, beside.fence, beside.result) == (State.COMPLETED, 1, pid)
    assert not stage.told("interrupted")


@only_in_all
def test_children_end_when_their_supervisor_is_killed(stage: Stage, jobs: tenure.Jobs) -> None:
    """Slow: children start, and detect that their supervisor has died."""
    jobs.enqueue_many(tenure.NewJob("hold") for _ in range(2))
    options = {"concurrency": 1, "lease": A_LONG_LEASE, "grace": 0.3}
    with office_on(stage, options, processes=2) as office:
        until(lambda: len(stage.told("began")) == 2)

        office.send(signal.SIGKILL)
        until(lambda: not jobs.workers())

    assert [(job.state, job.attempts) for job in jobs.find()] == [(State.QUEUED, 0)] * 2


@only_in_all
def test_a_signal_under_load_costs_no_attempt(stage: Stage, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("load") for _ in range(3_000))
    with office_on(stage, {"concurrency": 4, "lease": A_LONG_LEASE}, processes=2) as office:
        until(lambda: len({line.pid for line in stage.told("began")}) == 2)

        office.send(signal.SIGTERM)
        ending = office.ending()

    ended = [(job.state, job.attempts, job.crashes) for job in jobs.find()]
    assert set(ended) <= {(State.QUEUED, 0, 0), (State.COMPLETED, 1, 0)}
    assert (ending["reason"], ending["deaths"], ending["killed"]) == (ExitReason.STOPPED, 0, 0)
    assert ending["summary"]["completed"] == ended.count((State.COMPLETED, 1, 0))


@only_in_all
def test_a_second_signal_ends_the_grace(stage: Stage, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many([tenure.NewJob("hold"), tenure.NewJob("hold_async")])
    with office_on(stage, {"concurrency": 1, "grace": 3600}, processes=2) as office:
        until(lambda: len(stage.told("began")) == 2)

        office.send(signal.SIGTERM)
        office.send(signal.SIGINT)
        ending = office.ending()

    assert (ending["killed"], ending["summary"]["released"]) == (0, 2)
    assert [(job.state, job.attempts) for job in jobs.find()] == [(State.QUEUED, 0)] * 2


def test_a_frozen_child_is_killed_after_the_grace_and_its_jobs_are_taken_back(stage: Stage, jobs: tenure.Jobs) -> None:
    """Slow: the supervisor waits for the grace period and the margin of a frozen child."""
    jobs.enqueue("hold", id="held")
    options = {"lease": A_LONG_LEASE, "grace": 0.2}
    with shift_of(plan_on(stage, options, kill_margin=0.5)) as shift:
        (line,) = until(lambda: stage.told("began"))
        freeze(line.pid)

        ending = shift.end()

    job = job_of(jobs, "held")
    assert (ending.reason, ending.killed, ending.deaths) == (ExitReason.STOPPED, 1, 0)
    assert (job.state, job.crashes, outcomes(job)) == (State.QUEUED, 1, [Outcome.EXPIRED])


def test_a_child_that_is_ended_by_a_signal_when_its_worker_has_ended_left_nothing_behind(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with shift_of(plan_on(stage, {}, command=python(LEAVER.format(gate=stage.gate)))) as shift:
        until(stage.gate.exists)

        ending = shift.end()

    assert (ending.reason, ending.deaths, ending.killed) == (ExitReason.STOPPED, 0, 0)
    assert caplog.messages == []


def test_draining_ends_with_the_children_and_adds_up_what_they_did(stage: Stage, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("quick") for _ in range(200))

    with shift_of(plan_on(stage, {"drain": True}, processes=2, drain=True)) as shift:
        ending = shift.ending()

    assert (ending.reason, ending.deaths, ending.summary.completed) == (ExitReason.DRAINED, 0, 200)
    assert shift.condition.ended_summary.completed == 200


@only_in_all
def test_a_child_that_dies_while_it_drains_is_replaced(stage: Stage, jobs: tenure.Jobs) -> None:
    """Slow: a child restarts after a delay."""
    jobs.enqueue("leave", id="deadly", max_crashes=1)
    jobs.enqueue("quick", id="after")

    with shift_of(plan_on(stage, {"drain": True, "lease": A_LONG_LEASE}, drain=True)) as shift:
        ending = shift.ending()

    assert (ending.reason, ending.deaths) == (ExitReason.DRAINED, 1)
    assert [job_of(jobs, id).state for id in ("deadly", "after")] == [State.FAILED, State.COMPLETED]


def test_a_change_of_the_source_replaces_the_children_and_one_that_breaks_it_is_waited_out(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Slow: the children are replaced three times."""
    source = stage.folder / "source"
    source.mkdir()
    with shift_of(plan_on(stage, {}, reload=[source])) as shift:
        (first,) = shift.ready()

        (source / "new.py").touch()
        second = shift.other_than(first)
        refusal_on(stage).touch()
        (source / "new.py").write_text("broken")
        until(lambda: any("no worker process could start" in line for line in caplog.messages))
        refusal_on(stage).unlink()
        (source / "new.py").unlink()
        shift.other_than(first, second)

        assert shift.end().reason is ExitReason.STOPPED
