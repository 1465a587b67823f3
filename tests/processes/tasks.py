"""Tasks of the worker processes: short, waiting, blocking, forking, and fatal to their process."""

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
"""Shortest and longest duration, in seconds, of a job that only makes load."""
ROOM = 2 << 30
"""Limit of address space, in bytes, for a handler that allocates more."""


def add_tasks(jobs: tenure.Jobs, stage: Stage) -> None:
    """Register all tasks."""
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
    """Register tasks that wait for the gate and return their process id."""

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
        """Deliver the signal to a handler thread, as if it arrived just before the main thread started to wait."""
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    @jobs.task
    def sleep_on() -> None:
        """Block in one system call, where Python cannot raise an exception."""
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
        """Fork an endless child, terminate the child, and return its exit code."""
        context = multiprocessing.get_context("fork")
        begun = context.Event()

        def stay() -> None:
            begun.set()
            # Many short sleeps: Python misses a signal that arrives just before a system call blocks.
            while True:
                time.sleep(0.05)

        child = context.Process(target=stay)
        child.start()
        # Python drops signals that arrive before its cleanup after a fork has finished.
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
        """Wait until the process has also buffered other due jobs, so that they are buffered when the process dies.

        After a crash, wait only briefly: a job in quarantine runs alone.
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
        """Allocate more memory than the limit allows."""
        stage.tell("began")
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, resource.RLIM_INFINITY))
        bytes(ROOM)
