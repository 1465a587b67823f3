"""`tenure exec` as a process that is stopped: by a signal, a terminal, a cancel, or the loss of its claim."""

import signal
import sys
from pathlib import Path

import pytest

import tenure
from tests.cli.attempts import OBLIGING, STUBBORN, UNTIL_GO, WAITING, outcomes, the_job
from tests.cli.terminal import Terminal, is_alive
from tests.processes.stage import until
from tests.tiers import only_in_all, starts_processes

pytestmark = starts_processes


def test_a_lost_claim_ends_its_command_and_nothing_is_recorded(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    program = terminal.start("exec", "--lease", "1", "--worker", "w1", "--", "sh", "-c", WAITING)
    terminal.reads("began")
    jobs.reap(worker="w1")
    (mine,) = jobs.claim(worker="w2")

    ran = program.ended()

    job = the_job(jobs)
    assert ran.code == 1
    assert ran.err == (
        "tenure: lost the claim of job 'a7' with fence 1: another claim, a reaper or an operator took the job; "
        "nothing was written\n"
    )
    assert terminal.reads("told") == "TERM\n"
    assert (job.state, job.fence, outcomes(job)) == (tenure.State.RUNNING, mine.fence, ["expired"])


def test_a_claim_that_is_lost_during_the_grace_ends_the_grace(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    terminal.write(
        "work.sh", "trap 'echo TERM >> told; trap \"exit 1\" TERM' TERM; echo > began; while :; do sleep 0.02; done"
    )
    program = terminal.start("exec", "--lease", "1", "--grace", "10m", "--worker", "w1", "--", "./work.sh")
    terminal.reads("began")
    program.send(signal.SIGTERM)
    terminal.reads("told")

    jobs.reap(worker="w1")
    ran = program.ended()

    assert ran.code == 128 + signal.SIGTERM
    assert "lost the claim of job 'a7' with fence 1" in ran.err
    assert outcomes(the_job(jobs)) == ["expired"]


def test_a_loss_that_shows_only_at_the_end_is_told(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", id="a7")
    program = terminal.start("exec", "--worker", "w1", "--", "sh", "-c", UNTIL_GO)
    terminal.reads("began")
    jobs.reap(worker="w1")
    (terminal.folder / "go").touch()

    ran = program.ended()

    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert the_job(jobs).state is tenure.State.QUEUED


@pytest.mark.parametrize(
    ("command", "state", "history"),
    [(WAITING, "cancelled", ["operator", "cancelled"]), (OBLIGING, "completed", ["operator"])],
    ids=["ends with 1", "ends with 0"],
)
def test_a_cancel_ends_the_command_and_its_success_still_wins(
    terminal: Terminal, jobs: tenure.Jobs, command: str, state: str, history: list[str]
) -> None:
    jobs.enqueue("work", id="a7")
    program = terminal.start("exec", "--lease", "1", "--", "sh", "-c", command)
    terminal.reads("began")

    jobs.cancel("a7")
    ran = program.ended()

    job = the_job(jobs)
    assert ran.code == (0 if state == "completed" else 1)
    assert (str(job.state), outcomes(job)) == (state, history)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=only_in_all),
        pytest.param(signal.SIGHUP, marks=only_in_all),
    ],
)
def test_a_signal_is_passed_on_and_the_job_is_given_back(
    terminal: Terminal, jobs: tenure.Jobs, number: signal.Signals
) -> None:
    jobs.enqueue("work")
    program = terminal.start("exec", "--", "sh", "-c", WAITING)
    terminal.reads("began")

    program.send(number)
    ran = program.ended()

    job = the_job(jobs)
    assert ran.code == 128 + number
    assert terminal.reads("told") == "TERM\n"
    assert (str(job.state), job.attempts, outcomes(job)) == ("queued", 0, ["released"])


def test_a_command_that_ends_well_after_a_signal_has_completed_its_job(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(2))
    program = terminal.start("exec", "--drain", "--", "sh", "-c", OBLIGING)
    terminal.reads("began")

    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM
    assert sorted(str(job.state) for job in jobs.find()) == ["completed", "queued"]


def test_a_command_that_goes_on_after_the_grace_is_killed(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    program = terminal.start("exec", "--grace", "200ms", "--", "sh", "-c", STUBBORN)
    terminal.reads("began")

    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM
    assert outcomes(the_job(jobs)) == ["released"]


def test_a_second_signal_does_not_wait_for_the_grace(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    program = terminal.start("exec", "--grace", "10m", "--", "sh", "-c", STUBBORN)
    terminal.reads("began")

    program.send(signal.SIGTERM)
    program.send(signal.SIGINT)

    assert program.ended().code in {128 + signal.SIGTERM, 128 + signal.SIGINT}
    assert outcomes(the_job(jobs)) == ["released"]


def test_the_ctrl_c_of_a_terminal_is_not_sent_to_the_command_again(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    # After the first signal the command keeps running for a while, so that a second signal would reach it.
    terminal.write(
        "work.sh",
        "trap 'echo INT >> told' INT; trap 'echo TERM >> told' TERM; echo > began\n"
        "while [ ! -e told ]; do sleep 0.02; done; sleep 0.3; exit 1",
    )
    program = terminal.start("exec", "--", "./work.sh", has_terminal=True)
    terminal.reads("began")

    program.type("\x03")

    assert program.ended().code == 128 + signal.SIGINT
    assert terminal.reads("told") == "INT\n"
    assert outcomes(the_job(jobs)) == ["released"]


def test_a_signal_ends_the_wait_for_a_job(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    jobs.claim(lease=600)
    program = terminal.start("exec", "--json", "--wait", "10m", "--", "true")
    until(lambda: signal.SIGTERM in caught_by(program.pid))

    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM


def test_the_wait_ends_when_the_holder_has_done_its_job(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    (claim,) = jobs.claim(lease=600)
    program = terminal.start("exec", "--lease", "10m", "--", "true")
    until(lambda: signal.SIGTERM in caught_by(program.pid))

    claim.complete()

    assert program.ended().code == 3


def test_with_a_wait_any_job_is_waited_for(terminal: Terminal, jobs: tenure.Jobs) -> None:
    program = terminal.start("exec", "--wait", "10m", "--", "true")
    until(lambda: signal.SIGTERM in caught_by(program.pid))

    jobs.enqueue("work")

    assert program.ended().code == 0


def caught_by(pid: int) -> list[signal.Signals]:
    """Return the signals that a process handles."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
    return [number for number in signal.Signals if mask >> (number - 1) & 1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_a_command_is_told_that_its_tenure_exec_was_killed(terminal: Terminal, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    program = terminal.start("exec", "--", "sh", "-c", f"echo $$ > pid; {WAITING}")
    terminal.reads("began")
    pid = int(terminal.reads("pid"))

    program.send(signal.SIGKILL)

    assert terminal.reads("told") == "TERM\n"
    until(lambda: not is_alive(pid))
    assert program.ended().code == -signal.SIGKILL
