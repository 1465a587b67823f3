"""`tenure exec`: a command runs while its job is held, and its exit code decides the outcome of the job."""

import json
import os
import signal
from collections import Counter
from itertools import count
from typing import Any

import pytest

import tenure
from tenure.cli import exec_run
from tenure.cli.exec_process import ExecProcess
from tenure.cli.exec_run import ExecConfig, ExecRun
from tenure.cli.signals import Signals
from tenure.client.keeper import ticks
from tests.cli.attempts import OBLIGING, STUBBORN, UNTIL_GO, locked, outcomes, the_job
from tests.cli.shell import Shell
from tests.cli.terminal import Terminal, is_alive
from tests.processes.stage import until
from tests.tiers import only_in_all, starts_processes
from tests.worker.test_neighbours import Locking

pytestmark = starts_processes

LOOPS = 4
NUMBER = 12


def test_the_command_gets_the_payload_and_finds_its_claim_in_the_environment(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("send", {"to": "ada@example.org", "note": "grüße"}, queue="mail", id="a7")
    url = f"sqlite:///{made.folder / 'tenure.db'}"

    ran = made.run("exec", "--url", url, "--", "sh", "-c", "cat; env | grep ^TENURE_")

    payload, *lines = ran.out.splitlines()
    environment = dict(line.split("=", 1) for line in lines)
    assert (ran.code, ran.err) == (0, "")
    assert payload == '{"to":"ada@example.org","note":"grüße"}'
    assert environment.pop("TENURE_URL") == url
    assert json.loads(environment.pop("TENURE_CLAIM")) == {
        "id": "a7",
        "fence": 1,
        "token": environment.pop("TENURE_TOKEN"),
    }
    assert environment == {
        "TENURE_ID": "a7",
        "TENURE_FENCE": "1",
        "TENURE_ATTEMPT": "1",
        "TENURE_TYPE": "send",
        "TENURE_QUEUE": "mail",
    }
    assert the_job(jobs).state is tenure.State.COMPLETED


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("echo '{\"pages\": 12}'", {"pages": 12}),
        ("echo done, twice; echo", "done, twice"),
        ("echo NaN", "NaN"),
        ("true", None),
    ],
)
def test_what_the_command_prints_is_the_result_and_is_passed_on(
    made: Shell, jobs: tenure.Jobs, command: str, result: Any
) -> None:
    jobs.enqueue("work")

    ran = made.run("exec", "--result", "--", "sh", "-c", command)

    assert ran.code == 0
    assert (ran.out == "") == (result is None)
    assert the_job(jobs).result == result


@pytest.mark.parametrize(
    "command", ["head -c 400000 /dev/zero", r"echo x; head -c 1100000 /dev/zero | tr '\0' ' '; echo 7"]
)
def test_a_result_that_is_too_long_is_dropped_and_the_job_completed(
    made: Shell, jobs: tenure.Jobs, command: str
) -> None:
    jobs.enqueue("work")

    ran = made.run("exec", "--result", "--", "sh", "-c", command)

    job = the_job(jobs)
    assert ran.code == 0
    assert len(ran.out) >= 400_000
    assert "dropped: more than" in ran.err
    assert (job.state, job.result, job.result_dropped) == (tenure.State.COMPLETED, None, True)


def test_without_result_nothing_is_kept(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    ran = made.run("exec", "--", "echo", "7")

    assert ran.out == "7\n"
    assert the_job(jobs).result is None


@pytest.mark.parametrize(
    ("command", "outcome", "state", "error"),
    [
        ("echo no such user >&2; exit 3", "failed", "queued", "exit code 3; end of standard error:\nno such"),
        ("kill -SEGV $$", "failed", "queued", "killed by SIGSEGV"),
        ("exit 75", "retried", "queued", "exit code 75"),
        ("exit 64", "failed", "failed", "exit code 64"),
    ],
)
def test_a_command_that_does_not_succeed_is_recorded_by_the_policy_of_the_job(
    made: Shell, jobs: tenure.Jobs, command: str, outcome: str, state: str, error: str
) -> None:
    jobs.enqueue("work", id="a7")

    ran = made.run("exec", "--give-up-on", "64", "--", "sh", "-c", command)

    job = the_job(jobs)
    assert ran.code == 1
    assert f"tenure: job 'a7' {outcome}: {error.split(';', maxsplit=1)[0]}\n" in ran.err
    assert (outcomes(job), str(job.state), job.attempts) == ([outcome], state, 1)
    assert job.errors[0].startswith(error)


def test_the_end_of_a_long_standard_error_is_kept_and_all_of_it_is_passed_on(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    made.write(
        "work.sh", '#!/bin/sh\ni=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1'
    ).chmod(0o755)

    ran = made.run("exec", "--", "./work.sh")

    error = the_job(jobs).errors[0]
    assert len(ran.err.splitlines()) == 2001
    assert error.endswith("line 1999\n")
    assert 4096 < len(error) < 4200


def test_a_command_that_cannot_be_begun_gives_the_job_back(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    made.write("work.py", "#!/nowhere/python\n").chmod(0o755)

    ran = made.run("exec", "--", "./work.py")

    job = the_job(jobs)
    assert ran.code == 2
    assert ran.err.startswith("tenure: cannot run './work.py': No such file")
    assert (outcomes(job), job.attempts) == (["released"], 0)


def test_a_command_that_does_not_read_its_payload_is_not_held_up_by_it(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", {"text": "x" * 200_000})

    assert made.run("exec", "--", "true").code == 0


def test_a_process_that_the_command_leaves_behind_holds_nobody_up(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    ran = made.run("exec", "--result", "--", "sh", "-c", "sleep 300 & echo $! > pid; echo done")

    os.kill(int((made.folder / "pid").read_text()), signal.SIGKILL)
    assert ran.code == 0
    assert the_job(jobs).result == "done"


def test_the_time_limit_of_a_job_ends_its_command(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", timeout=0.3)

    ran = made.run("exec", "--", "sleep", "300")

    job = the_job(jobs)
    assert ran.code == 1
    assert (outcomes(job), job.attempts) == (["failed"], 1)
    assert job.errors == ["time limit of 0.3 s exceeded: killed by SIGTERM"]


@pytest.fixture
def an_hour_passes(made: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock of the run by an hour once the time limit is set and the command has started."""
    began, looks = made.folder / "began", count()
    monkeypatch.setattr(exec_run, "ticks", lambda: ticks() + (3600 if next(looks) and began.exists() else 0))


@pytest.mark.usefixtures("an_hour_passes")
def test_a_command_that_ends_well_after_its_time_limit_has_failed(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", timeout=600)

    made.run("exec", "--", "sh", "-c", OBLIGING)

    assert the_job(jobs).errors == ["time limit of 600 s exceeded: exit code 0"]


@pytest.mark.usefixtures("an_hour_passes")
def test_a_command_that_does_not_end_when_it_is_told_is_killed(
    made: Shell, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_run, "KILL_DELAY", 0.2)
    jobs.enqueue("work", timeout=600)

    made.run("exec", "--", "sh", "-c", STUBBORN)

    assert the_job(jobs).errors == ["time limit of 600 s exceeded: killed by SIGKILL"]


def order(command: str) -> ExecConfig:
    return ExecConfig(command=("sh", "-c", command), grace=30.0, give_up_on=frozenset(), keeps_result=False, url=None)


class LateSignals(Signals):
    """Receives a signal to the process group only after it has killed the command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        killer, self._is_over = ExecProcess.ending_signal, False

        def noting(command: ExecProcess) -> int | None:
            self._is_over = True
            return killer(command)

        monkeypatch.setattr(ExecProcess, "ending_signal", noting)

    def wait(self, timeout: float) -> None:
        if self._is_over:
            self.received.append(signal.SIGTERM)
        else:
            super().wait(timeout)


def test_a_signal_that_is_heard_after_the_command_has_died_of_it_is_no_failure(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.enqueue("work")

    with LateSignals(monkeypatch) as signals:
        outcome = ExecRun(jobs.claim()[0], order("kill -TERM $$"), signals).run()

    assert outcome is tenure.Outcome.RELEASED


def test_a_signal_to_the_command_alone_is_its_failure(jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    with Signals() as signals:
        outcome = ExecRun(jobs.claim()[0], order("kill -TERM $$"), signals).run()

    assert outcome is tenure.Outcome.FAILED
    assert the_job(jobs).errors == ["killed by SIGTERM"]


def test_draining_goes_on_until_nothing_is_due(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}) for n in range(3))

    ran = made.run("exec", "--drain", "--json", "--", "true")

    assert ran.code == 0
    assert [json.loads(line)["outcome"] for line in ran.out.splitlines()] == ["completed"] * 3


def test_draining_goes_on_after_a_failure_and_tells_it_at_the_end(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}, max_attempts=1) for n in range(3))

    ran = made.run("exec", "--drain", "--", "grep", "-qv", "1")
    empty = made.run("exec", "--drain", "--", "true")

    assert (ran.code, empty.code) == (1, 3)
    assert Counter(str(job.state) for job in jobs.find()) == {"completed": 2, "failed": 1}


def test_only_the_queues_and_types_that_are_named_are_run_and_waited_for(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("send", queue="mail", id="mail")
    jobs.enqueue("work", queue="mail")
    jobs.enqueue("send", queue="other")
    jobs.claim(types="work", lease=600)

    done = made.run("exec", "--queue", "mail", "--type", "send", "--", "true")
    none = made.run("exec", "--queue", "mail", "--type", "send", "--lease", "10m", "--", "true")

    assert (done.code, none.code) == (0, 3)
    assert [job.id for job in jobs.find(state="completed")] == ["mail"]


def test_what_a_dead_holder_left_is_waited_for(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    jobs.claim(lease=2, worker="dead")

    ran = made.run("exec", "--lease", "10", "--", "true")

    job = the_job(jobs)
    assert ran.code == 0
    assert (str(job.state), outcomes(job)) == ("completed", ["expired"])


def test_a_store_that_stays_away_is_told_with_what_is_lost(
    made: Shell, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_run, "SETTLE_TIMEOUT", 0.2)
    jobs.enqueue("work", id="a7")

    with tenure.Jobs(f"sqlite:///{made.folder / 'tenure.db'}?timeout=0.1") as hasty, Signals() as signals:
        (claim,) = hasty.claim()
        with (
            locked(made.folder),
            pytest.raises(tenure.StoreUnavailable, match="the command for job 'a7' has ended, but"),
        ):
            ExecRun(claim, order("true"), signals).run()

    assert the_job(jobs).state is tenure.State.RUNNING


def test_a_job_that_is_locked_at_the_end_is_reported_as_locked_and_unrecorded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exec_run, "SETTLE_TIMEOUT", 0.2)
    monkeypatch.setattr("tenure.client.settling.BUSY_TIMEOUT", 0.0)
    store = Locking()

    with tenure.Jobs(store) as jobs, Signals() as signals:
        jobs.enqueue("work", id="a7")
        (claim,) = jobs.claim()
        store.locked = {"a7"}
        outcome = ExecRun(claim, order("true"), signals).run()

    retried, ended = capfd.readouterr().err.splitlines()
    assert outcome == "unrecorded"
    assert retried.startswith("tenure: job locked, retrying for 0.2 s: outcome 'completed' of job 'a7' not recorded")
    assert ended.startswith("tenure: outcome 'completed' of job 'a7' not recorded: another transaction has locked")


def test_a_lease_is_kept_while_the_command_runs(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    program = terminal.start("exec", "--lease", "1", "--", "sh", "-c", UNTIL_GO)
    terminal.reads("began")
    before = the_job(jobs).leased_until
    assert before is not None

    until(lambda: (now := the_job(jobs).leased_until) and (now - before).total_seconds() > 1.2)
    (terminal.folder / "go").touch()

    assert program.ended().code == 0
    assert outcomes(the_job(jobs)) == []


def test_a_store_that_is_away_at_the_end_is_told_when_it_is_back_and_once(
    terminal: Terminal, jobs: tenure.Jobs
) -> None:
    jobs.enqueue("work")
    url = f"sqlite:///{terminal.folder / 'tenure.db'}?timeout=0.1"
    program = terminal.start("exec", "--url", url, "--", "sh", "-c", f"echo ran >> runs; {UNTIL_GO}")
    terminal.reads("began")

    with locked(terminal.folder):
        (terminal.folder / "go").touch()
        program.says("store unavailable, retrying for 30 s")
    ran = program.ended()

    assert (ran.code, len(ran.err.splitlines())) == (0, 1)
    assert terminal.reads("runs") == "ran\n"
    assert the_job(jobs).state is tenure.State.COMPLETED
    assert sum(count.number for count in jobs.counts() if count.event == "completed") == 1


@only_in_all
def test_four_loops_in_the_shell_do_every_job_though_one_is_killed(terminal: Terminal, jobs: tenure.Jobs) -> None:
    """Slow: each job is a process, and the lease of a killed process has to expire."""
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}, id=f"job-{n}") for n in range(NUMBER))
    terminal.write(
        "work.sh",
        'echo "$TENURE_ID $TENURE_FENCE" >> effects\n'
        'if [ "$TENURE_ID $TENURE_FENCE" = "job-5 1" ]; then echo "$PPID $$" > victim; exec sleep 300; fi',
    )
    loops = [
        terminal.start_any("sh", "-c", "while tenure exec --lease 10 -- ./work.sh; do :; done") for _ in range(LOOPS)
    ]

    killed, command = map(int, terminal.reads("victim").split())
    os.kill(killed, signal.SIGKILL)
    for loop in loops:
        assert loop.ended().code == 0

    effects = Counter(tuple(line.split()) for line in terminal.reads("effects").splitlines())
    explained = {
        (job.id, str(fence)) for job in jobs.find() for fence in (job.fence, *(each.fence for each in job.history))
    }
    until(lambda: not is_alive(command))
    assert [str(job.state) for job in jobs.find()] == ["completed"] * NUMBER
    assert sum(count.number for count in jobs.counts() if count.event == "completed") == NUMBER
    assert {job.id: outcomes(job) for job in jobs.find() if job.history} == {"job-5": ["expired"]}
    assert set(effects) == explained
    assert set(effects.values()) == {1}
