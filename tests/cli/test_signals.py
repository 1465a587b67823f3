"""Signals that are ignored or blocked at the start of a command stay so; SIGTERM always stops."""

import signal
import sys

import pytest

import tenure
from tests.cli.terminal import Program, Terminal
from tests.processes.stage import PATIENCE, until
from tests.tiers import only_in_all, starts_processes

pytestmark = starts_processes

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

started_with = pytest.mark.parametrize(
    "how", [pytest.param(IGNORED, id="ignored"), pytest.param(BLOCKED, id="blocked", marks=only_in_all)]
)


def start(terminal: Terminal, how: str, *arguments: str) -> Program:
    """Start `tenure` with the three signals that stop it ignored or blocked."""
    return terminal.start_any(sys.executable, "-c", how, sys.executable, "-m", "tenure.cli", *arguments)


def interrupt(program: Program) -> None:
    program.send(signal.SIGINT)
    program.send(signal.SIGHUP)


@pytest.mark.parametrize(
    ("how", "options"),
    [
        pytest.param(IGNORED, (), id="ignored-alone"),
        pytest.param(BLOCKED, ("--processes", "2"), id="blocked-supervised"),
        pytest.param(BLOCKED, (), id="blocked-alone", marks=only_in_all),
        pytest.param(IGNORED, ("--processes", "2"), id="ignored-supervised", marks=only_in_all),
    ],
)
def test_a_worker_that_was_started_so_works_on_until_sigterm(
    terminal: Terminal, how: str, options: tuple[str, ...]
) -> None:
    (terminal.folder / "app.py").write_text(APP)
    with terminal.jobs() as jobs:
        program = start(terminal, how, "work", "app:jobs", *options)
        jobs.wait_for(jobs.enqueue("greet"), timeout=PATIENCE)

        interrupt(program)
        later = jobs.enqueue("greet")
        jobs.wait_for(later, timeout=PATIENCE)
        program.send(signal.SIGTERM)

        assert program.ended().code == 0
        assert jobs.workers() == []


@started_with
def test_exec_that_was_started_so_is_stopped_by_sigterm_alone(terminal: Terminal, how: str) -> None:
    with terminal.jobs() as jobs:
        id = jobs.enqueue("work")
        program = start(terminal, how, "exec", "--", "sh", "-c", "echo > began; exec sleep 600")
        terminal.reads("began")

        interrupt(program)
        program.send(signal.SIGTERM)

        assert program.ended().code == 128 + signal.SIGTERM
        assert [str(ending.outcome) for ending in tenure_job(jobs, id).history] == ["released"]


@only_in_all
@pytest.mark.parametrize("how", [IGNORED, BLOCKED], ids=["ignored", "blocked"])
def test_a_demo_that_was_started_so_is_stopped_by_sigterm_alone(terminal: Terminal, how: str) -> None:
    program = start(terminal, how, "demo")
    until(lambda: "workers started" in program.out())

    interrupt(program)
    program.send(signal.SIGTERM)

    assert program.ended().code == 128 + signal.SIGTERM


def test_a_bulk_verb_that_was_started_so_goes_on_to_its_end(terminal: Terminal) -> None:
    with terminal.jobs() as jobs:
        jobs.enqueue_many(tenure.NewJob("work") for _ in range(10))
        program = start(terminal, IGNORED, "jobs", "cancel", "--all", "--rate", "20/s", "--json")
        until(program.out)

        interrupt(program)

        assert program.ended().code == 0
        assert jobs.stats().total("cancelled") == 10


def tenure_job(jobs: tenure.Jobs, id: str) -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job
