"""Keeps so many worker processes running, and sees them to their end.

It runs no job, imports nothing of the user's and opens no store, so that whatever ends a child does not end it. What a
dead child held is taken back at once: what it had started has crashed, the rest is released. All is done in one
thread, which turns a few times a second.
"""

import logging
import os
from dataclasses import replace

from tenure.client.keeper import ticks
from tenure.errors import ConfigurationError
from tenure.service.status import Condition
from tenure.signals import stopped_by_signals
from tenure.supervisor.child import Child, Reason, said
from tenure.supervisor.config import Plan
from tenure.supervisor.file_watcher import Sources
from tenure.supervisor.process_slot import Post
from tenure.supervisor.result import Ending, How
from tenure.worker.summary import Summary
from tenure.worker.wakeup import Bell

log = logging.getLogger(__name__)

TURN_EVERY = 0.25
REPLACE_EVERY = 1.0
LOOK_EVERY = 0.5


class Supervisor:
    """Runs once. `stop` and `condition` may be called from anywhere, even a signal handler."""

    def __init__(self, plan: Plan) -> None:
        if os.name != "posix":
            raise ConfigurationError(
                f"a system of the kind {os.name!r} cannot share files with a process; start single workers instead"
            )
        self._plan = plan
        self._posts = [Post(plan) for _ in range(plan.processes)]
        self._scout = self._posts[0]
        self._bell = Bell()
        self._stops = 0
        self._how: How | None = None
        self._was_one_ready = False
        self._sources: Sources | None = None
        self._is_waiting_for_a_change = False
        self._next_replacement_at = self._next_look_at = 0.0
        self._deaths = self._killed = 0
        self._ended = Summary()
        self._condition = Condition(workers=(), wanted=plan.processes)
        self._turned_at = ticks()

    def run(self) -> Ending:
        """Start the children and watch over them, until a signal, a stop, or nothing is left to do."""
        if self._plan.reload is not None:
            self._sources = Sources(self._plan.reload)
        log.info("supervisor %s starts; worker processes: %s", os.getpid(), self._plan.processes)
        with stopped_by_signals(self):
            try:
                while (ending := self._turn(ticks())) is None:
                    self._bell.wait(TURN_EVERY)
            finally:
                for post in self._posts:
                    post.close()
        return ending

    def stop(self, *, now: bool = False) -> None:
        """Tell the children to end, and end when they have; `now`, tell them not to wait for their handlers.

        This returns at once.
        """
        self._stops = max(self._stops, 2 if now else 1)
        self._bell.ring()

    def condition(self) -> Condition:
        """Return how it was, a moment ago, or longer: it may be held up, as by a log that nobody takes."""
        return replace(self._condition, quiet_for=max(0.0, ticks() - self._turned_at - TURN_EVERY))

    def _turn(self, now: float) -> Ending | None:
        self._turned_at = now
        self._pass_on_stops()
        for post in self._posts:
            self._look_at_post(post, now)
        if self._how is None:
            self._look_for_changes(now)
            self._replace_one(now)
            self._look_for_hope()
            self._start_what_is_due(now)
        self._publish(now)
        return self._ending()

    def _pass_on_stops(self) -> None:
        if self._stops and self._how is None:
            self._how = How.STOPPED
        if self._how is not None:
            self._tell_all(Reason.STOP, now=self._stops > 1)

    def _tell_all(self, reason: Reason, *, now: bool = False) -> None:
        for post in self._posts:
            if post.child is not None:
                post.child.tell_to_end(reason, now=now)

    def _look_at_post(self, post: Post, now: float) -> None:
        post.look_at_reaping(now)
        child = post.child
        if child is None:
            return
        code = child.code()
        # One that is told to end is not what the next ones will be: their source may be another.
        self._was_one_ready = self._was_one_ready or (child.is_ready and child.reason is None)
        if code is not None:
            self._take_end(post, child, code, now)
        elif child.reason is not None:
            child.press(now)
        elif child.is_ready:
            post.is_recycling = False

    def _take_end(self, post: Post, child: Child, code: int, now: float) -> None:
        """Do what follows from the end of a child."""
        post.child = None
        self._ended += child.summary
        self._killed += child.was_killed
        is_well = child.has_ended_well(code) and (child.reason is not None or self._plan.drain)
        if not is_well and child.name is not None:
            started = child.started()
            self._say_that_it_died(child, code, started)
            post.take_back(child.name, started, now)
        elif not is_well and child.reason is None:
            self._say_that_it_died(child, code, [])
        if child.reason is None and is_well:
            post.is_done = self._was_one_ready = True
        elif child.reason is None:
            self._deaths += 1
            post.note_death(code, now - child.started_at, now)
        child.close()

    def _say_that_it_died(self, child: Child, code: int, started: list[str] | None) -> None:
        log.error(
            "worker process %s (%s) %s: %s; jobs that it had started: %s",
            child.pid,
            child.name or "not yet at work",
            "did not end in time, and was killed" if child.was_killed else "died",
            said(code),
            "not known" if started is None else len(started),
            extra={
                "pid": child.pid,
                "worker": child.name,
                "code": code,
                "started": None if started is None else len(started),
            },
        )

    def _look_for_changes(self, now: float) -> None:
        if self._sources is None or now < self._next_look_at:
            return
        changed = self._sources.changed()
        # Of many files seldom: to look is not to be all that it does.
        self._next_look_at = now + max(LOOK_EVERY, 20 * (ticks() - now))
        if not changed:
            return
        log.info("%s changed: all worker processes are replaced", changed[0], extra={"paths": [*map(str, changed)]})
        self._was_one_ready = self._is_waiting_for_a_change = False
        for post in self._posts:
            post.begin_anew()
        self._tell_all(Reason.RELOAD)

    def _replace_one(self, now: float) -> None:
        """Tell a child to end that is to be replaced: one at a time, so that the others go on."""
        if now < self._next_replacement_at or any(post.is_recycling for post in self._posts):
            return
        self._next_replacement_at = now + REPLACE_EVERY
        for post in self._posts:
            why = post.why_replace()
            if post.child is not None and why is not None:
                pid = post.child.pid
                log.info("worker process %s is replaced: %s", pid, why, extra={"pid": pid})
                post.is_recycling = True
                post.child.tell_to_end(Reason.RECYCLE)
                return

    def _look_for_hope(self) -> None:
        """Give up if no child ever came to run; where the source may change, wait for that instead."""
        scout = self._scout
        if self._was_one_ready or self._is_waiting_for_a_change or not scout.is_hopeless:
            return
        if self._sources is None:
            self._how = How.MISUSED if scout.has_refused else How.GAVE_UP
            self._pass_on_stops()
        else:
            self._is_waiting_for_a_change = True
            log.error("no worker process comes to run; they are started again when the source has changed")

    def _start_what_is_due(self, now: float) -> None:
        if self._how is not None or self._is_waiting_for_a_change:
            return
        # One goes ahead: what keeps it from running would keep them all, and is said once.
        if self._scout.child is not None and self._scout.child.reason is not None:
            # It still ends, which may take long: whichever post is empty goes ahead instead.
            self._scout = next((post for post in self._posts if post.is_due(now)), self._scout)
        for post in self._posts if self._was_one_ready else [self._scout]:
            if post.is_due(now):
                post.start(now)

    def _publish(self, now: float) -> None:
        vitals = (post.child.vitals(now) for post in self._posts if post.child is not None)
        self._condition = Condition(
            workers=tuple(each for each in vitals if each is not None),
            wanted=self._plan.processes,
            is_stopping=self._how is not None,
            deaths=self._deaths,
            ended=self._ended,
        )

    def _ending(self) -> Ending | None:
        how = How.DRAINED if self._how is None and all(post.is_done for post in self._posts) else self._how
        if how is None or not all(post.is_empty for post in self._posts):
            return None
        return Ending(how=how, summary=self._ended, deaths=self._deaths, killed=self._killed)
