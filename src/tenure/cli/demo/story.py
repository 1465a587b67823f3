"""What happens in the demo, step by step.

Each step waits for what the store says, never for a time to pass: so it happens on a slow machine as well.
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tenure
from tenure.cli.demo import app
from tenure.cli.demo.crew import CONCURRENCY, LEASE, WORKERS, Crew, Member
from tenure.cli.demo.report import Caught, Played
from tenure.cli.demo.screen import Glance, Row, Screen
from tenure.cli.demo.traces import Trace, read_starts

LONGEST = 180.0
"""Seconds after which the demo gives up."""
TICK = 0.05
LINE = 200
"""How many jobs wait in line until the last scene: more than are done in a tick, however fast that is."""
PART = 50
"""How many are enqueued at once, at least."""
BUFFERED = 2
"""How many jobs a worker should have beside those that it runs when something happens to it, at least."""


class StoryHangs(Exception):  # noqa: N818 - it names the fact
    """What was waited for did not come."""


class Story:
    """Played once. `hasty` is the same store for whoever does not wait for other writers: one of them may be frozen."""

    def __init__(self, jobs: tenure.Jobs, hasty: tenure.Jobs, path: Path, crew: Crew, screen: Screen) -> None:
        self._jobs = jobs
        self._hasty = hasty
        self._path = path
        self._crew = crew
        self._screen = screen
        self._number = 0
        self._are_coming = False
        self._ends_at = time.monotonic() + LONGEST

    def play(self) -> Played:
        self._until("every worker is there", lambda: len(self._crew.members) == WORKERS)
        self._are_coming = True
        self._say(f"the race is on, with pid {', '.join(str(each.pid) for each in self._crew.members)}")
        self._until("some jobs are completed", lambda: self._completed() >= LINE)

        victim, killed = self._catch()
        victim.kill()
        had = f"{len(killed.started)} jobs started, {len(killed.buffered)} buffered"
        self._say(f"{victim} is killed with SIGKILL: {had}", "red")
        self._until_taken_back(victim, killed)
        successor = self._until_replaced()

        sleeper, frozen = self._catch()
        self._say(f"{sleeper} is frozen with SIGSTOP, {len(frozen.held)} jobs in its hands", "cyan")
        self._until_taken_over(sleeper, frozen)
        self._are_coming = False
        self._thaw(sleeper, frozen)

        self._until("all jobs are completed", lambda: self._completed() == self._number)
        self._crew.end()
        return Played(number=self._number, killed=killed, successor=successor.name, frozen=frozen)

    def _catch(self) -> tuple[Member, Caught]:
        """Stop a worker that has its hands full, and more in its buffer; return it, and what it holds."""
        while True:
            holding = self._holding()
            laden = [each for each in self._crew.working() if holding[each.name] >= CONCURRENCY + BUFFERED]
            if laden:
                member = min(laden, key=lambda each: holding[each.name])
                member.freeze()
                caught = self._caught(member)
                is_full = len(caught.started) == CONCURRENCY and len(caught.buffered) >= BUFFERED
                # Asked twice: it may have gone on for a moment.
                if is_full and self._is_writable() and self._caught(member) == caught:
                    return member, caught
                member.thaw()
            self._tick("a worker has its hands full")

    def _caught(self, member: Member) -> Caught:
        held = {Trace.of(job) for job in self._jobs.find(state="running", worker=member.name)}
        started = held.intersection(read_starts(self._path))
        return Caught(worker=member.name, started=frozenset(started), buffered=frozenset(held - started))

    def _is_writable(self) -> bool:
        """Tell whether the others can write: one that is stopped in the middle of a transaction would keep them all."""
        try:
            # This writes nothing, but has to wait for its turn.
            self._hasty.resume("default")
        except tenure.StoreUnavailable:
            return False
        return True

    def _until_taken_back(self, member: Member, caught: Caught) -> None:
        def outcomes() -> list[tenure.Outcome]:
            endings = ((trace, ending) for trace in caught.held for ending in self._job(trace).history)
            return [ending.outcome for trace, ending in endings if ending.fence == trace.fence]

        killed_at = time.monotonic()
        self._until(f"the jobs of {member} are taken back", lambda: len(outcomes()) == len(caught.held))
        after, number = time.monotonic() - killed_at, Counter(outcomes())
        crashed, given_back = number[tenure.Outcome.EXPIRED], number[tenure.Outcome.RELEASED]
        self._say(f"the supervisor takes them back after {after:.1f} s: {crashed} count a crash, {given_back} do not")

    def _until_replaced(self) -> Member:
        """Wait for the worker that is started for the killed one, and until it has done something."""
        self._until("the supervisor starts another worker", lambda: len(self._crew.members) > WORKERS)
        successor = self._crew.members[-1]
        self._say(f"the supervisor starts {successor} in its place")
        done = partial(self._jobs.find, state="completed", worker=successor.name)
        self._until(f"{successor} completes a job", lambda: any(done()))
        return successor

    def _until_taken_over(self, member: Member, caught: Caught) -> None:
        def taken() -> list[tenure.Job]:
            found = {trace: self._job(trace) for trace in caught.held}
            return [job for trace, job in found.items() if job.worker and job.fence > trace.fence]

        self._until(f"the jobs of {member} are taken over", lambda: len(taken()) == len(caught.held))
        takers = self._crew.numbers_of(job.worker for job in taken())
        self._say(f"its leases of {LEASE:g} s ran out: its jobs are taken over by worker {takers}")

    def _thaw(self, member: Member, caught: Caught) -> None:
        before, number = self._refused(), len(caught.held)
        member.thaw()
        self._say(f"{member} is thawed with SIGCONT, and goes on with its {number} jobs", "cyan")
        self._until(f"{member} is refused", lambda: self._refused() - before >= number)
        self._say(f"worker {member.number} is refused {number} times: ClaimLost", "cyan")

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._tick(what)

    def _tick(self, what: str) -> None:
        """Let a moment pass while waiting for something; raise if it will not come any more."""
        self._crew.meet(self._jobs.workers())
        self._crew.check()
        if self._are_coming:
            self._enqueue_what_is_missing()
        members, holding = self._crew.members, self._holding()
        rows = [Row(name=f"worker {each.number}", fate=each.fate, holds=holding[each.name]) for each in members]
        self._screen.show(Glance(completed=self._completed(), number=self._number, workers=rows))
        if time.monotonic() > self._ends_at:
            fates = ", ".join(f"{each} {each.fate}" for each in members)
            raise StoryHangs(f"after {LONGEST:g} s this still waits until {what}; {fates or 'there is no worker'}")
        time.sleep(TICK)

    def _enqueue_what_is_missing(self) -> None:
        missing = LINE - self._jobs.stats().total("due")
        if missing >= PART:
            self._jobs.enqueue_many([app.work.job()] * missing)
            self._number += missing

    def _job(self, trace: Trace) -> tenure.Job:
        job = self._jobs.get(trace.job)
        if job is None:
            raise StoryHangs(f"job {trace.job} is not in the store any more")
        return job

    def _holding(self) -> Counter[str]:
        return Counter({each.name: each.holding for each in self._jobs.workers()})

    def _completed(self) -> int:
        return self._jobs.stats().total("completed")

    def _refused(self) -> int:
        return sum(count.number for count in self._jobs.counts() if count.event is tenure.Event.REFUSED)

    def _say(self, text: str, style: str = "") -> None:
        self._screen.say(f"  {text}", style)
