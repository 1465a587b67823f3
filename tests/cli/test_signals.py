"""Signals that were ignored or blocked when a command started: they stay so, but SIGTERM always stops."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure
from tests.cli.terminal import Program, Terminal
from tests.processes.stage import until

IGNORED = """
import os, signal, sys
for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(each, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
"""
BLOCKED = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, signal.SIGTERM})
os.execvp(sys.argv[1], sys.argv[1:])
"""
APP = """
import tenure

jobs = tenure.Jobs()

@jobs.task
def greet():
    pass
"""

started_with = pytest.mark.parametrize("how", [IGNORED, BLOCKED], ids=["ignored", "blocked"])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    shell = Terminal(tmp_path)
    yield shell
    shell.clear_away()


def start(shell: Terminal, how: str, *arguments: str) -> Program:
    """Start `tenure` with the three signals that stop it ignored or blocked."""
    return shell.start_any(sys.executable, "-c", how, sys.executable, "-m", "tenure.cli", *arguments)


def interrupt(program: Program) -> None:
    program.send(signal.SIGINT)
    program.send(signal.SIGHUP)


@started_with
@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_a_worker_that_was_started_so_works_on_until_sigterm(
    shell: Terminal, how: str, options: tuple[str, ...]
) -> None:
    (shell.folder / "app.py").write_text(APP)
    with shell.jobs() as jobs:
        program = start(shell, how, "work", "app:jobs", *options)
        jobs.wait_for(jobs.enqueue("greet"), timeout=60)

        interrupt(program)
        later = jobs.enqueue("greet")
        jobs.wait_for(later, timeout=60)
        program.send(signal.SIGTERM)

        assert program.ended().code == 0
        assert jobs.workers() == []


@started_with
def test_exec_that_was_started_so_is_stopped_by_sigterm_alone(shell: Terminal, how: str) -> None:
    with shell.jobs() as jobs:
        id = jobs.enqueue("work")
        program = start(shell, how, "exec", "--", "sh", "-c", "echo > began; exec sleep 600")
        shell.reads("began")

        interrupt(program)
        program.send(signal.SIGTERM)

        assert program.ended().code == 128 + signal.SIGTERM
        assert [str(ending.outcome) for ending in tenure_job(jobs, id).history] == ["released"]


@started_with
def test_a_demo_that_was_started_so_is_stopped_by_sigterm_alone(shell: Terminal, how: str) -> None:
    program = start(shell, how, "demo")
    until(lambda: "the race is on" in program.out())

    interrupt(program)
    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM


def test_a_bulk_verb_that_was_started_so_goes_on_to_its_end(shell: Terminal) -> None:
    with shell.jobs() as jobs:
        jobs.enqueue_many(tenure.NewJob("work") for _ in range(10))
        program = start(shell, IGNORED, "jobs", "cancel", "--all", "--rate", "20/s", "--json")
        until(program.out)

        interrupt(program)

        assert program.ended().code == 0
        assert jobs.stats().total("cancelled") == 10


def tenure_job(jobs: tenure.Jobs, id: str) -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job
