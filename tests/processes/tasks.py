"""What the workers of the scenes run: handlers that end, that hold, that do not end, and that end their process."""

import asyncio
import multiprocessing
import os
import random
import resource
import signal
import threading
import time

import tenure
from tests.processes.stage import PATIENCE, Stage

TICK = 0.01
AN_HOUR = 3600.0
LOAD = 0.0, 0.004
"""Seconds that a job takes of which there are many: from, to."""
ROOM = 2 << 30
"""Bytes of address space for a process that asks for more."""


def add_tasks(jobs: tenure.Jobs, stage: Stage) -> None:
    """Register them all."""
    _add_load(jobs, stage)
    _add_holders(jobs, stage)
    _add_those_that_block(jobs, stage)
    _add_forks(jobs)
    _add_poison(jobs, stage)


def _add_load(jobs: tenure.Jobs, stage: Stage) -> None:
    @jobs.task
    def quick() -> None:
        stage.tell("began")

    @jobs.task
    def load() -> None:
        stage.tell("began")
        time.sleep(random.uniform(*LOAD))

    @jobs.task
    async def load_async() -> None:
        stage.tell("began")
        await asyncio.sleep(random.uniform(*LOAD))


def _add_holders(jobs: tenure.Jobs, stage: Stage) -> None:
    """Add handlers that end when the gate is opened, and return the number of their process."""

    @jobs.task
    def hold() -> int:
        stage.tell("began")
        try:
            while not stage.gate.exists():
                time.sleep(TICK)
        except tenure.TaskInterrupted:
            stage.tell("interrupted")
            raise
        stage.tell("ended")
        return os.getpid()

    @jobs.task
    async def hold_async() -> int:
        stage.tell("began")
        try:
            while not stage.gate.exists():  # noqa: ASYNC110 - created by another process
                await asyncio.sleep(TICK)
        except asyncio.CancelledError:
            stage.tell("cancelled")
            raise
        stage.tell("ended")
        return os.getpid()


def _add_those_that_block(jobs: tenure.Jobs, stage: Stage) -> None:
    @jobs.task
    def receive_a_signal() -> None:
        """Take the signal in this thread, as if it came just before the main thread began to wait."""
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    @jobs.task
    def sleep_on() -> None:
        """Wait in one call of the system, where nothing can be raised."""
        stage.tell("began")
        time.sleep(AN_HOUR)

    @jobs.task
    async def block_the_loop(seconds: float) -> None:
        stage.tell("began")
        time.sleep(seconds)  # noqa: ASYNC251 - blocks the loop on purpose

    @jobs.task
    def burn(seconds: float) -> None:
        stage.tell("began")
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            pass


def _add_forks(jobs: tenure.Jobs) -> None:
    @jobs.task
    def end_a_child() -> int | None:
        """Fork a child that would not end, end it, and return its exit code."""
        context = multiprocessing.get_context("fork")
        begun = context.Event()

        def stay() -> None:
            begun.set()
            # Not in one: Python does not notice a signal that comes at the brink of it.
            while True:
                time.sleep(0.05)

        child = context.Process(target=stay)
        child.start()
        # Python forgets a signal that comes while it still puts itself in order after the fork.
        begun.wait(PATIENCE)
        child.terminate()
        child.join(PATIENCE)
        return child.exitcode

    @jobs.task
    def fork_and_return() -> str:
        if os.fork() == 0:
            return "from the child"
        os.wait()
        return "from the parent"


def _add_poison(jobs: tenure.Jobs, stage: Stage) -> None:
    def begin() -> None:
        """Wait until other jobs that are due are claimed by this process: they are in its buffer when it dies.

        After a crash for a moment only: no job may be claimed beside one that has crashed.
        """
        stage.tell("began")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        waits_until = time.monotonic() + (0.5 if tenure.current().job.crashes else PATIENCE)
        while time.monotonic() < waits_until and (stats := jobs.stats()).total("due") and stats.total("running") < 3:
            time.sleep(TICK)

    @jobs.task
    def last_a_second() -> None:
        stage.tell("began")
        time.sleep(1)

    @jobs.task
    def leave() -> None:
        begin()
        os._exit(1)

    @jobs.task
    def crash() -> None:
        begin()
        signal.raise_signal(signal.SIGSEGV)

    @jobs.task
    def hoard() -> None:
        """Ask for more memory than there is."""
        stage.tell("began")
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, resource.RLIM_INFINITY))
        bytes(ROOM)
