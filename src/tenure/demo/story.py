"""What happens in the demo, step by step.

Each step waits for what the store says, never for a time to pass: so it happens on a slow machine as well.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence

import tenure
from tenure.demo.crew import Crew, Member
from tenure.demo.report import Played
from tenure.demo.screen import Glance, Row, Screen

LONGEST = 60.0
"""Seconds after which the demo gives up."""
TICK = 0.05
SEVERAL = 3
"""How many jobs a worker should have in its hands when something happens to it."""


class StoryHangs(Exception):  # noqa: N818 - it names the fact
    """What was waited for did not come."""


class Story:
    def __init__(self, jobs: tenure.Jobs, crew: Crew, screen: Screen, number: int) -> None:
        self._jobs = jobs
        self._crew = crew
        self._screen = screen
        self._number = number
        self._ends_at = time.monotonic() + LONGEST

    def play(self) -> Played:
        self._until("every worker is ready", lambda: all(each.is_ready() for each in self._crew))
        # A slow machine loses leases by itself; that is not to use up what a job may suffer.
        patient = tenure.NewJob("work", max_attempts=None, max_crashes=1_000)
        self._jobs.enqueue_many([patient] * self._number)
        self._say(f"the race is on, with pid {', '.join(str(each.pid) for each in self._crew)}")

        self._until_completed(0.15)
        killed, orphaned = self._catch()
        killed.kill()
        self._say(f"{killed} is killed with SIGKILL, {len(orphaned)} jobs in its hands", "red")

        self._until_completed(0.30)
        frozen, held = self._catch()
        self._say(f"{frozen} is frozen with SIGSTOP, {len(held)} jobs in its hands", "cyan")

        self._until_taken_over(killed, orphaned)
        self._until_taken_over(frozen, held)
        self._thaw(frozen, held)

        self._until_completed(1.0)
        self._crew.end()
        return Played(number=self._number, killed=killed.name, frozen=frozen.name)

    def _catch(self) -> tuple[Member, list[tenure.Job]]:
        """Stop a worker that has several jobs in its hands; return it, and the jobs."""
        while True:
            holding = Counter(job.worker for job in self._running())
            member = max(self._crew.working(), key=lambda each: holding[each.name])
            member.freeze()
            held = [job for job in self._running() if job.worker == member.name]
            if len(held) >= SEVERAL and self._is_writable():
                return member, held
            member.thaw()
            self._tick("a worker has several jobs in its hands")

    def _is_writable(self) -> bool:
        """Tell whether the others can write: one that is stopped in the middle of a transaction would keep them all."""
        try:
            # This writes nothing, but has to wait for its turn.
            self._jobs.resume("default")
        except tenure.StoreUnavailable:
            return False
        return True

    def _until_taken_over(self, member: Member, held: Sequence[tenure.Job]) -> None:
        def taken() -> list[tenure.Job]:
            found = [self._jobs.get(job.id) for job in held]
            return [now for now, job in zip(found, held, strict=True) if now and now.worker and now.fence > job.fence]

        self._until(f"the jobs of {member} are taken over", lambda: len(taken()) == len(held))
        takers = sorted({job.worker.removeprefix("worker ") for job in taken() if job.worker})
        self._say(
            f"the leases of {member.name} ran out: its {len(held)} jobs are taken over by worker {' and '.join(takers)}"
        )

    def _thaw(self, member: Member, held: Sequence[tenure.Job]) -> None:
        before = self._refused()
        member.thaw()
        self._say(f"{member} is thawed with SIGCONT, and goes on with its {len(held)} jobs", "cyan")
        self._until(f"{member} is refused", lambda: self._refused() - before >= len(held))
        self._say(f"{member.name} is refused {len(held)} times: ClaimLost", "cyan")

    def _until_completed(self, part: float) -> None:
        wanted = round(self._number * part)
        self._until(f"{wanted} jobs are completed", lambda: self._jobs.stats().total("completed") >= wanted)

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._tick(what)

    def _tick(self, what: str) -> None:
        """Let a moment pass while waiting for something; raise if it will not come any more."""
        self._crew.check()
        holding = Counter(job.worker for job in self._running())
        self._screen.show(
            Glance(
                completed=self._jobs.stats().total("completed"),
                number=self._number,
                workers=[Row(name=each.name, fate=each.fate, holds=holding[each.name]) for each in self._crew],
            )
        )
        if time.monotonic() > self._ends_at:
            fates = ", ".join(f"{each} {each.fate}" for each in self._crew)
            raise StoryHangs(f"after {LONGEST:g} s this still waits until {what}; {fates}")
        time.sleep(TICK)

    def _running(self) -> list[tenure.Job]:
        return list(self._jobs.find(state="running"))

    def _refused(self) -> int:
        return sum(count.number for count in self._jobs.counts() if count.event is tenure.Event.REFUSED)

    def _say(self, text: str, style: str = "") -> None:
        self._screen.say(f"  {text}", style)
