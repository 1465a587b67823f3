"""`tenure exec`: a command runs while its job is held, and the job ends as the command did."""

import json
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.cli import attempt
from tenure.cli.attempt import Attempt, Order
from tenure.cli.command import Command
from tenure.cli.signals import Signals
from tests.cli.terminal import Terminal, is_alive
from tests.processes.stage import until

LOOPS = 4
NUMBER = 60


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    shell = Terminal(tmp_path)
    yield shell
    shell.clear_away()


@pytest.fixture
def jobs(shell: Terminal) -> Iterator[tenure.Jobs]:
    with shell.jobs() as jobs:
        jobs.stats()
        yield jobs


def the_job(jobs: tenure.Jobs) -> tenure.Job:
    (job,) = jobs.find()
    return job


def outcomes(job: tenure.Job) -> list[str]:
    return [str(ending.outcome) for ending in job.history]


def test_the_command_gets_the_payload_and_finds_its_claim_in_the_environment(
    shell: Terminal, jobs: tenure.Jobs
) -> None:
    jobs.enqueue("send", {"to": "ada@example.org", "note": "grüße"}, queue="mail", id="a7")
    url = f"sqlite:///{shell.folder / 'tenure.db'}"

    ran = shell.run("exec", "--url", url, "--", "sh", "-c", "cat; env | grep ^TENURE_")

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
    shell: Terminal, jobs: tenure.Jobs, command: str, result: Any
) -> None:
    jobs.enqueue("work")

    ran = shell.run("exec", "--result", "--", "sh", "-c", command)

    assert ran.code == 0
    assert (ran.out == "") == (result is None)
    assert the_job(jobs).result == result


@pytest.mark.parametrize(
    "command", ["head -c 400000 /dev/zero", r"echo x; head -c 1100000 /dev/zero | tr '\0' ' '; echo 7"]
)
def test_a_result_that_is_too_long_is_dropped_and_the_job_completed(
    shell: Terminal, jobs: tenure.Jobs, command: str
) -> None:
    jobs.enqueue("work")

    ran = shell.run("exec", "--result", "--", "sh", "-c", command)

    job = the_job(jobs)
    assert ran.code == 0
    assert len(ran.out) >= 400_000
    assert "is dropped" in ran.err
    assert (job.state, job.result, job.result_dropped) == (tenure.State.COMPLETED, None, True)


def test_without_result_nothing_is_kept(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    ran = shell.run("exec", "--", "echo", "7")

    assert ran.out == "7\n"
    assert the_job(jobs).result is None


@pytest.mark.parametrize(
    ("command", "outcome", "state", "error"),
    [
        ("echo no such user >&2; exit 3", "failed", "queued", "exit code 3; the end of its standard error:\nno such"),
        ("kill -SEGV $$", "failed", "queued", "killed by SIGSEGV"),
        ("exit 75", "retried", "queued", "exit code 75"),
        ("exit 64", "failed", "failed", "exit code 64"),
    ],
)
def test_a_command_that_does_not_succeed_is_recorded_by_the_policy_of_the_job(
    shell: Terminal, jobs: tenure.Jobs, command: str, outcome: str, state: str, error: str
) -> None:
    jobs.enqueue("work", id="a7")

    ran = shell.run("exec", "--give-up-on", "64", "--", "sh", "-c", command)

    job = the_job(jobs)
    assert ran.code == 1
    assert f"tenure: job 'a7' {outcome}: {error.split(';', maxsplit=1)[0]}\n" in ran.err
    assert (outcomes(job), str(job.state), job.attempts) == ([outcome], state, 1)
    assert job.errors[0].startswith(error)


def test_the_end_of_a_long_standard_error_is_kept_and_all_of_it_is_passed_on(
    shell: Terminal, jobs: tenure.Jobs
) -> None:
    jobs.enqueue("work")
    shell.write("work.sh", 'i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1')

    ran = shell.run("exec", "--", "./work.sh")

    error = the_job(jobs).errors[0]
    assert len(ran.err.splitlines()) == 2001
    assert error.endswith("line 1999\n")
    assert 4096 < len(error) < 4200


def test_a_command_that_is_not_there_costs_no_job_an_attempt(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    ran = shell.run("exec", "--", "./work.sh")

    assert (ran.code, ran.err) == (2, "tenure: './work.sh' cannot be run: there is no such file\n")
    assert the_job(jobs).fence == 0


def test_a_command_that_cannot_be_begun_gives_the_job_back(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    shell.write("work.py", "").write_text("#!/nowhere/python\n")

    ran = shell.run("exec", "--", "./work.py")

    job = the_job(jobs)
    assert ran.code == 2
    assert ran.err.startswith("tenure: './work.py' cannot be run: No such file")
    assert (outcomes(job), job.attempts) == (["released"], 0)


def test_a_command_that_does_not_read_its_payload_is_not_held_up_by_it(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", {"text": "x" * 200_000})

    assert shell.run("exec", "--", "true").code == 0


def test_a_process_that_the_command_leaves_behind_holds_nobody_up(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    ran = shell.run("exec", "--result", "--", "sh", "-c", "sleep 300 & echo $! > pid; echo done")

    os.kill(int(shell.reads("pid")), signal.SIGKILL)
    assert ran.code == 0
    assert the_job(jobs).result == "done"


def test_a_lease_is_kept_while_the_command_runs(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    program = shell.start(
        "exec", "--lease", "1", "--", "sh", "-c", "echo > began; while [ ! -e go ]; do sleep 0.02; done"
    )
    shell.reads("began")
    before = the_job(jobs).leased_until
    assert before is not None

    until(lambda: (now := the_job(jobs).leased_until) and (now - before).total_seconds() > 1.2)
    taken = jobs.claim()
    (shell.folder / "go").touch()

    assert (taken, program.ended().code) == ([], 0)
    assert outcomes(the_job(jobs)) == []


def test_the_time_limit_of_a_job_ends_its_command(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", timeout=0.3)

    ran = shell.run("exec", "--", "sleep", "300")

    job = the_job(jobs)
    assert ran.code == 1
    assert (outcomes(job), job.attempts) == (["failed"], 1)
    assert job.errors == ["its time limit of 0.3 s has passed: killed by SIGTERM"]


def test_a_command_that_ends_well_after_its_time_limit_has_failed(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", timeout=0.3)

    shell.run("exec", "--", "sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.02; done")

    assert the_job(jobs).errors == ["its time limit of 0.3 s has passed: exit code 0"]


STUBBORN = "trap '' TERM; echo > began; while :; do sleep 0.02; done"
WAITING = "trap 'echo TERM >> told; exit 1' TERM; echo > began; while :; do sleep 0.02; done"
OBLIGING = "trap 'exit 0' TERM; echo > began; while :; do sleep 0.02; done"


def order(command: str) -> Order:
    return Order(command=("sh", "-c", command), grace=30.0, give_up_on=frozenset(), keeps_result=False, url=None)


def test_a_command_that_does_not_end_when_it_is_told_is_killed(
    shell: Terminal, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.folder)
    monkeypatch.setattr(attempt, "HURRY", 0.2)
    jobs.enqueue("work", timeout=0.5)

    with Signals() as signals:
        outcome = Attempt(jobs.claim()[0], order(STUBBORN), signals).run()

    assert outcome is tenure.Outcome.FAILED
    assert the_job(jobs).errors == ["its time limit of 0.5 s has passed: killed by SIGKILL"]


class LateSignals(Signals):
    """Hears a signal to the whole group only after the command has died of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        killer, self._is_over = Command.killer, False

        def noting(command: Command) -> int | None:
            self._is_over = True
            return killer(command)

        monkeypatch.setattr(Command, "killer", noting)

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
        outcome = Attempt(jobs.claim()[0], order("kill -TERM $$"), signals).run()

    assert outcome is tenure.Outcome.RELEASED


def test_a_signal_to_the_command_alone_is_its_failure(jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    with Signals() as signals:
        outcome = Attempt(jobs.claim()[0], order("kill -TERM $$"), signals).run()

    assert outcome is tenure.Outcome.FAILED
    assert the_job(jobs).errors == ["killed by SIGTERM"]


def test_a_lost_claim_ends_its_command_and_nothing_is_recorded(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    program = shell.start("exec", "--lease", "1", "--worker", "w1", "--", "sh", "-c", WAITING)
    shell.reads("began")
    jobs.reap(worker="w1")
    (mine,) = jobs.claim(worker="w2")

    ran = program.ended()

    job = the_job(jobs)
    assert ran.code == 1
    assert ran.err == (
        "tenure: the claim of job 'a7' with fence 1 is over: another claim, a reaper or an operator took it; "
        "nothing was written\n"
    )
    assert shell.reads("told") == "TERM\n"
    assert (job.state, job.fence, outcomes(job)) == (tenure.State.RUNNING, mine.fence, ["expired"])


def test_a_claim_that_is_lost_during_the_grace_ends_the_grace(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    shell.write(
        "work.sh", "trap 'echo TERM >> told; trap \"exit 1\" TERM' TERM; echo > began; while :; do sleep 0.02; done"
    )
    program = shell.start("exec", "--lease", "1", "--grace", "10m", "--worker", "w1", "--", "./work.sh")
    shell.reads("began")
    program.send(signal.SIGTERM)
    shell.reads("told")

    jobs.reap(worker="w1")
    ran = program.ended()

    assert ran.code == 128 + signal.SIGTERM
    assert "the claim of job 'a7' with fence 1 is over" in ran.err
    assert outcomes(the_job(jobs)) == ["expired"]


def test_a_loss_that_shows_only_at_the_end_is_told(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    program = shell.start(
        "exec", "--worker", "w1", "--", "sh", "-c", "echo > began; while [ ! -e go ]; do sleep 0.02; done"
    )
    shell.reads("began")
    jobs.reap(worker="w1")
    (shell.folder / "go").touch()

    ran = program.ended()

    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert the_job(jobs).state is tenure.State.QUEUED


@pytest.mark.parametrize(
    ("command", "state", "history"),
    [(WAITING, "cancelled", ["operator", "cancelled"]), (OBLIGING, "completed", ["operator"])],
)
def test_a_cancel_ends_the_command_and_its_success_still_wins(
    shell: Terminal, jobs: tenure.Jobs, command: str, state: str, history: list[str]
) -> None:
    jobs.enqueue("work", id="a7")
    program = shell.start("exec", "--lease", "1", "--", "sh", "-c", command)
    shell.reads("began")

    jobs.cancel("a7")
    ran = program.ended()

    job = the_job(jobs)
    assert ran.code == (0 if state == "completed" else 1)
    assert (str(job.state), outcomes(job)) == (state, history)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_passed_on_and_the_job_is_given_back(
    shell: Terminal, jobs: tenure.Jobs, number: signal.Signals
) -> None:
    jobs.enqueue("work")
    program = shell.start("exec", "--", "sh", "-c", WAITING)
    shell.reads("began")

    program.send(number)
    ran = program.ended()

    job = the_job(jobs)
    assert ran.code == 128 + number
    assert shell.reads("told") == "TERM\n"
    assert (str(job.state), job.attempts, outcomes(job)) == ("queued", 0, ["released"])


def test_a_command_that_ends_well_after_a_signal_has_completed_its_job(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(2))
    program = shell.start("exec", "--drain", "--", "sh", "-c", OBLIGING)
    shell.reads("began")

    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM
    assert sorted(str(job.state) for job in jobs.find()) == ["completed", "queued"]


def test_a_command_that_goes_on_after_the_grace_is_killed(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    program = shell.start("exec", "--grace", "200ms", "--", "sh", "-c", STUBBORN)
    shell.reads("began")

    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM
    assert outcomes(the_job(jobs)) == ["released"]


def test_a_second_signal_does_not_wait_for_the_grace(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    program = shell.start("exec", "--grace", "10m", "--", "sh", "-c", STUBBORN)
    shell.reads("began")

    program.send(signal.SIGTERM)
    program.send(signal.SIGINT)

    assert program.ended().code in {128 + signal.SIGTERM, 128 + signal.SIGINT}
    assert outcomes(the_job(jobs)) == ["released"]


def test_the_ctrl_c_of_a_terminal_is_not_sent_to_the_command_again(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    shell.write("work.sh", "trap 'echo INT >> told' INT; trap 'echo TERM >> told' TERM; echo > began; sleep 1; exit 1")
    program = shell.start("exec", "--", "./work.sh", has_terminal=True)
    shell.reads("began")

    program.type("\x03")

    assert program.ended().code == 128 + signal.SIGINT
    assert shell.reads("told") == "INT\n"
    assert outcomes(the_job(jobs)) == ["released"]


def test_a_signal_ends_the_wait_for_a_job(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    jobs.claim(lease=600)
    program = shell.start("exec", "--json", "--wait", "10m", "--", "true")
    until(lambda: signal.SIGTERM in caught_by(program.pid))

    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM


def caught_by(pid: int) -> list[signal.Signals]:
    """Return the signals that a process handles."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
    return [number for number in signal.Signals if mask >> (number - 1) & 1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_a_command_is_told_that_its_tenure_exec_was_killed(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    program = shell.start("exec", "--", "sh", "-c", f"echo $$ > pid; {WAITING}")
    shell.reads("began")
    pid = int(shell.reads("pid"))

    program.send(signal.SIGKILL)

    assert shell.reads("told") == "TERM\n"
    until(lambda: not is_alive(pid))
    assert program.ended().code == -signal.SIGKILL


def test_nothing_due_and_nothing_held_ends_with_3(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", delay=600)

    ran = shell.run("exec", "--lease", "10m", "--", "true")

    assert (ran.code, ran.out, ran.err) == (3, "", "")


def test_draining_goes_on_until_nothing_is_due(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}) for n in range(3))

    ran = shell.run("exec", "--drain", "--json", "--", "true")

    assert ran.code == 0
    assert [json.loads(line)["outcome"] for line in ran.out.splitlines()] == ["completed"] * 3


def test_draining_goes_on_after_a_failure_and_tells_it_at_the_end(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}, max_attempts=1) for n in range(3))

    ran = shell.run("exec", "--drain", "--", "grep", "-qv", "1")
    empty = shell.run("exec", "--drain", "--", "true")

    assert (ran.code, empty.code) == (1, 3)
    assert Counter(str(job.state) for job in jobs.find()) == {"completed": 2, "failed": 1}


def test_only_the_queues_and_types_that_are_named_are_run_and_waited_for(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("send", queue="mail", id="mail")
    jobs.enqueue("work", queue="mail")
    jobs.enqueue("send", queue="other")
    jobs.claim(types="work", lease=600)

    done = shell.run("exec", "--queue", "mail", "--type", "send", "--", "true")
    none = shell.run("exec", "--queue", "mail", "--type", "send", "--lease", "10m", "--", "true")

    assert (done.code, none.code) == (0, 3)
    assert [job.id for job in jobs.find(state="completed")] == ["mail"]


def test_what_a_dead_holder_left_is_waited_for(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    jobs.claim(lease=2, worker="dead")

    ran = shell.run("exec", "--lease", "10", "--", "true")

    job = the_job(jobs)
    assert ran.code == 0
    assert (str(job.state), outcomes(job)) == ("completed", ["expired"])


def test_the_wait_ends_when_the_holder_has_done_its_job(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    (claim,) = jobs.claim(lease=600)
    program = shell.start("exec", "--lease", "10m", "--", "true")
    until(lambda: signal.SIGTERM in caught_by(program.pid))

    claim.complete()

    assert program.ended().code == 3


@pytest.mark.parametrize("options", [["--wait", "0"], ["--lease", "1"]])
def test_the_wait_for_a_holder_that_lives_is_bounded(shell: Terminal, jobs: tenure.Jobs, options: list[str]) -> None:
    jobs.enqueue("work")
    jobs.claim(lease=600)

    assert shell.run("exec", *options, "--", "true").code == 3


def test_with_a_wait_any_job_is_waited_for(shell: Terminal, jobs: tenure.Jobs) -> None:
    program = shell.start("exec", "--wait", "10m", "--", "true")
    until(lambda: signal.SIGTERM in caught_by(program.pid))

    jobs.enqueue("work")

    assert program.ended().code == 0


def test_a_store_that_is_away_at_the_end_is_told_when_it_is_back_and_once(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    url = f"sqlite:///{shell.folder / 'tenure.db'}?timeout=0.1"
    program = shell.start(
        "exec", "--url", url, "--", "sh", "-c", "echo ran >> runs; echo > began; while [ ! -e go ]; do sleep 0.02; done"
    )
    shell.reads("began")

    with locked(shell):
        (shell.folder / "go").touch()
        program.says("the store does not answer, trying on for 30 s")
    ran = program.ended()

    assert (ran.code, len(ran.err.splitlines())) == (0, 1)
    assert shell.reads("runs") == "ran\n"
    assert the_job(jobs).state is tenure.State.COMPLETED
    assert sum(count.number for count in jobs.counts() if count.event == "completed") == 1


def locked(shell: Terminal) -> Any:
    """Return a block in which nobody can write to the store."""
    db = sqlite3.connect(shell.folder / "tenure.db", isolation_level=None)
    db.execute("begin immediate")
    return closing(db)


def test_a_store_that_stays_away_is_told_with_what_is_lost(
    shell: Terminal, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "PATIENCE", 0.2)
    jobs.enqueue("work", id="a7")

    with tenure.Jobs(f"sqlite:///{shell.folder / 'tenure.db'}?timeout=0.1") as hasty, Signals() as signals:
        (claim,) = hasty.claim()
        with locked(shell), pytest.raises(tenure.StoreUnavailable, match="the work on job 'a7' is done, but"):
            Attempt(claim, order("true"), signals).run()

    assert the_job(jobs).state is tenure.State.RUNNING


MISUSE = {
    "no dashes": (["exec", "./work.sh", "-v"], "put -- before the command: tenure exec [OPTIONS] -- ./work.sh"),
    "no command": (["exec", "--queue", "mail", "--"], "name the command"),
    "nothing": (["exec"], "name the command"),
    "an unknown option": (["exec", "--queus", "mail", "--", "true"], "no such option '--queus'"),
    "a command that is not on the path": (["exec", "--", "no-such-command"], "it is not on the path"),
    "a lease out of range": (["exec", "--lease", "2d", "--", "true"], "lease must be 1 to 86,400 seconds"),
    "success given up on": (["exec", "--give-up-on", "0", "--", "true"], "0 is not in the range 1<=x<=255"),
    "a wrong url": (["exec", "--url", "postgre://x", "--", "true"], "does not name a store"),
    "a missing store": (["exec", "--url", "sqlite:///none.db", "--", "true"], "there is no store at"),
}


@pytest.mark.parametrize("mistake", MISUSE)
def test_misuse_is_told_in_one_line_and_changes_nothing(shell: Terminal, jobs: tenure.Jobs, mistake: str) -> None:
    jobs.enqueue("work")
    arguments, message = MISUSE[mistake]

    ran = shell.run(*arguments)

    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert message in ran.err
    assert the_job(jobs).fence == 0


def test_a_file_that_is_no_store_is_told_in_one_line(shell: Terminal) -> None:
    (shell.folder / "tenure.db").write_text("no database, " * 100)

    ran = shell.run("exec", "--", "true")

    assert (ran.code, len(ran.err.splitlines())) == (2, 1)


def test_four_loops_in_the_shell_do_every_job_though_one_is_killed(shell: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}, id=f"job-{n}") for n in range(NUMBER))
    shell.write(
        "work.sh",
        'echo "$TENURE_ID $TENURE_FENCE" >> effects\n'
        'if [ "$TENURE_ID $TENURE_FENCE" = "job-20 1" ]; then echo "$PPID $$" > victim; exec sleep 300; fi',
    )
    loops = [shell.start_any("sh", "-c", "while tenure exec --lease 2 -- ./work.sh; do :; done") for _ in range(LOOPS)]

    killed, command = map(int, shell.reads("victim").split())
    os.kill(killed, signal.SIGKILL)
    for loop in loops:
        assert loop.ended().code == 0

    effects = Counter(tuple(line.split()) for line in shell.reads("effects").splitlines())
    explained = {
        (job.id, str(fence)) for job in jobs.find() for fence in (job.fence, *(each.fence for each in job.history))
    }
    until(lambda: not is_alive(command))
    assert [str(job.state) for job in jobs.find()] == ["completed"] * NUMBER
    assert sum(count.number for count in jobs.counts() if count.event == "completed") == NUMBER
    assert {job.id: outcomes(job) for job in jobs.find() if job.history} == {"job-20": ["expired"]}
    assert set(effects) == explained
    assert set(effects.values()) == {1}
