"""A holder that resumes after lease expiry commits nothing: every job has exactly one effect."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import tenure
from tests.postgres.stores import Place
from tests.postgres.zombies import effect
from tests.tiers import only_in_all

PROCESSES, HELD, ROUNDS = 4, 10, 5


class Zombies:
    """A process of `zombies`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def begin(self) -> None:
        """Let the process claim jobs and open its transactions."""
        self._say("claim")

    def wait_until_ready(self) -> None:
        assert self._hear() == ["ready"]

    def stop(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> list[str]:
        """Let the process finish its transactions, and return the result of each."""
        os.kill(self._process.pid, signal.SIGCONT)
        self._say("end")
        return self._hear()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _hear(self) -> list[str]:
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()


@contextmanager
def started(place: Place) -> Iterator[Zombies]:
    command = [sys.executable, "-m", "tests.postgres.zombies", place.url, place.server, place.schema, str(HELD)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Zombies(process)
    finally:
        process.kill()
        process.communicate()


def take_over(jobs: tenure.Jobs, place: Place, number: int) -> None:
    """Complete a number of jobs, with their effects, as their leases expire."""
    while number > 0:
        for claim in jobs.claim(limit=10, lease=60, wait=1):
            with effect(place.server, place.schema, claim, is_own=False):
                pass
            number -= 1


@only_in_all
def test_two_hundred_holders_that_come_back_late_commit_nothing(place: Place) -> None:
    """Slow: two hundred processes start."""
    number = PROCESSES * HELD
    with tenure.Jobs(place.url) as jobs, ExitStack() as stack:
        jobs.migrate()
        place.execute("create table S.effects (job text, fence bigint)")
        zombies = [stack.enter_context(started(place)) for _ in range(PROCESSES)]

        for _ in range(ROUNDS):
            jobs.enqueue_many(tenure.NewJob("work", max_crashes=10) for _ in range(number))
            for each in zombies:
                each.begin()
            for each in zombies:
                each.wait_until_ready()
            for each in zombies:
                each.stop()
            place.execute("update S.jobs set leased_until = now() where state = 'running'")
            take_over(jobs, place, number)
            assert [each.go_on() for each in zombies] == [["lost"] * HELD] * PROCESSES

        effects = place.execute("select job, fence from S.effects")
        done = {(job.id, job.fence) for job in jobs.find(state="completed")}
    assert len(done) == ROUNDS * number == 200
    assert sorted(effects) == sorted(done)
