"""Claims jobs for the slots and settles what they ended, both in one round trip wherever possible.

One thread does all of this. It is also the one that sees the worker to its end: it claims no more, waits for the
handlers, gives back what they leave, and is the last to speak to the store.
"""

import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from tenure.claim import Holder
from tenure.core.job import Outcome
from tenure.core.operations import LARGEST_BATCH, ClaimRequest, Settlement
from tenure.core.transitions import released
from tenure.errors import StoreUnavailable
from tenure.facts import facts
from tenure.identity import new_token
from tenure.keeper import Lease, ticks
from tenure.run import Run, Stop
from tenure.worker.bell import Bell
from tenure.worker.board import Board
from tenure.worker.handler import Handler
from tenure.worker.ledger import Ledger
from tenure.worker.pace import Pace
from tenure.worker.quarantine import Quarantine
from tenure.worker.store import Answer, PatientStore, Question
from tenure.worker.summary import Summary

log = logging.getLogger(__name__)

FLUSH = 128
"""How many endings are enough for a trip of their own."""
LINGER = 0.005
"""Seconds that an ending may wait for others, while the slots have enough to do."""
HOLD = 1.0
"""Seconds that a job may wait here for a slot. After that others may have it."""
HURRY = 2.0
"""Seconds that handlers which were cancelled or interrupted have to end."""
HINT_KEPT = 0.8
"""Seconds for which claims go on where the last one stopped. After that the next looks at everything, since what became
due behind it may wait for a second at most."""
LONGEST_WAIT = 1.0
"""Seconds after which it turns, even if nothing happened."""
LAST_WORDS = 5.0
"""Seconds that a worker which has ended tries to tell the store what it did."""


class Claimer:
    """Made for one worker; `run` is its thread. `stop` may be called from anywhere, even a signal handler."""

    def __init__(
        self,
        *,
        holder: Holder,
        handlers: Mapping[str, Handler],
        request: ClaimRequest,
        board: Board,
        watch: Callable[[], None],
        interrupt: Callable[[Run, Stop], None],
        grace: float,
        drain: bool,
        is_closed: Callable[[], bool],
        ledger: Ledger | None = None,
    ) -> None:
        self.turned_at = ticks()
        self.is_loop_stalled = False
        self._holder = holder
        self._store = PatientStore(holder.store)
        self._handlers = handlers
        self._request = request
        self._board = board
        self._watch = watch
        self._interrupt = interrupt
        self.summary = Summary()
        self._grace = grace
        self._drain = drain
        self._is_closed = is_closed
        self._ledger = ledger
        self._pace = Pace()
        self._bell = Bell()
        self._starved = Bell()
        self._ended: deque[tuple[Run, Settlement | None]] = deque()
        self._asked: Question | None = None
        self._abandoned: set[Run] = set()
        self._quarantine = Quarantine(board)
        self._all_types = tuple(handlers)
        self._sync_types = tuple(type for type, handler in handlers.items() if not handler.is_async)
        self._sent: list[tuple[Run, Settlement | None]] = []
        self._may_find = True
        self._hint: object = None
        self._looked_at = ticks()
        self._stop_at: float | None = None
        self._ends_at = math.inf
        self._is_hurried = False
        self._last_trip_at = ticks()
        self._done = 0

    @property
    def is_store_failing(self) -> bool:
        return self._store.is_failing

    @property
    def has_abandoned(self) -> bool:
        """Whether some handler did not end with the worker."""
        return bool(self._abandoned)

    @property
    def is_stopping(self) -> bool:
        return self._stop_at is not None

    def settle(self, run: Run, settlement: Settlement | None) -> None:
        """Take in how a run ended. The slot is free: what is to be done about it is done here."""
        if not run.is_here():
            # A process that a handler forked, and that came back from it: it would run the jobs of others.
            os._exit(1)
        if run not in self._abandoned:
            self._ended.append((run, settlement))
            self._bell.ring()

    def starve(self) -> None:
        """Hear that a slot has nothing to do."""
        self._starved.ring()
        self._bell.ring()

    def look(self) -> None:
        """Look whether the store has something: it may."""
        self._may_find = True
        self._bell.ring()

    def retire(self) -> None:
        """Claim no more, and end when the handlers have, however long they take."""
        if self._stop_at is None:
            self._stop_at = ticks()
        self._bell.ring()

    def stop(self, *, now: bool = False) -> None:
        """Claim no more, and end when the handlers have; at the end of the grace, or `now`, without them."""
        self.retire()
        self._ends_at = min(self._ends_at, ticks() + self._grace)
        self._is_hurried = self._is_hurried or now
        self._bell.ring()

    def run(self) -> None:
        try:
            while self._stop_at is None:
                self._turn()
        except BaseException:
            # What it holds must not be kept by the keeper when nobody is left to settle it.
            self.stop(now=True)
            self._finish()
            raise
        self._finish()

    def _finish(self) -> None:
        log.info("the worker %s stops; still running: %s", self._request.worker, len(self._board.running))
        for run in self._board.begun():
            run.is_worker_stopping = True
        self._give_back(self._board.withdraw_waiting() + self._board.withdraw_handed())
        self._wait_for_handlers(lambda: self._ends_at)
        self._abandon_handlers()
        self._say_the_rest()

    def _turn(self) -> None:
        """Do what there is to do, or wait until there is something."""
        now = self.turned_at = ticks()
        if self.is_loop_stalled or self._board.has_waited(now - HOLD):
            self._give_back_what_waits()
        wanted = self._wanted()
        if self._asked is not None or (wanted and (self._may_find or self._ended)):
            self._trip(wanted)
        elif len(self._ended) >= FLUSH or (self._ended and not self._board.waiting):
            self._trip(0)
        elif self._ended:
            self._starved.wait(LINGER)
            self._trip(self._wanted())
        elif self._drain and self._board.size == 0 and not self.is_loop_stalled:
            self.stop()
        elif not self._bell.wait(HOLD / 4 if self._board.waiting else LONGEST_WAIT):
            # Nobody said that there is something, but who would have said so may be gone.
            self._may_find = True

    def _wanted(self) -> int:
        """Return how many jobs to claim."""
        if self._stop_at is not None or not self._types:
            return 0
        ahead = 0 if self._quarantine.has_suspects else self._pace.ahead
        free = self._board.concurrency - self._board.size
        if free <= 0 and len(self._board.waiting) > ahead // 2:
            return 0
        return self._quarantine.most(max(0, min(LARGEST_BATCH, free + ahead)))

    @property
    def _types(self) -> tuple[str, ...]:
        """The types to claim: while the event loop stands still, only those that do not need it."""
        return self._sync_types if self.is_loop_stalled else self._all_types

    def _trip(self, wanted: int) -> None:
        """Ask the store what there is to be asked; if it did not answer the last time, the same again."""
        started_at = ticks()
        question = self._question(wanted, started_at) if self._asked is None else self._asked_again(self._asked)
        is_asked = bool(question.settlements) or question.request is not None
        if is_asked:
            self._asked = question
            answer = self._store.ask(question)
            if answer is None:
                if self._is_closed():
                    raise StoreUnavailable("the Jobs of this worker is closed; stop the worker first")
                time.sleep(self._store.pause())
                return
            self._asked = None
            self._take_jobs(question, answer)
            self._note_landed(self._sent, answer)
        self._end_leases()
        self._done += len(self._sent)
        self._sent = []
        # If handlers have settled all of it by themselves, nobody was asked: that does not tell how long a trip takes.
        if is_asked:
            self._note_pace(started_at)

    def _note_pace(self, started_at: float) -> None:
        # From start to start: what is sent with a trip had ended since the last one began, much of it while that ran.
        self._pace.note(done=self._done, within=started_at - self._last_trip_at, trip=ticks() - started_at)
        self._done, self._last_trip_at = 0, started_at

    def _question(self, wanted: int, now: float) -> Question:
        request = None
        if wanted:
            hint = self._take_hint(now)
            request = replace(self._request, types=self._types, limit=wanted, token=new_token(), hint=hint)
        return Question(settlements=self._take_ended(), request=request, sent_at=now)

    def _take_hint(self, now: float) -> object:
        """Return where to go on; None to look at everything again."""
        hint = self._hint if now - self._looked_at < HINT_KEPT else None
        if hint is None:
            self._looked_at = now
        return hint

    def _asked_again(self, question: Question) -> Question:
        """Return the same question, with what has ended meanwhile.

        It comes before the claim: that takes back what ran out while the store was away, and must not find it there.
        What was known of the lines then is too old.
        """
        request = None if question.request is None else replace(question.request, hint=None)
        return replace(question, settlements=self._take_ended(), request=request)

    def _take_ended(self) -> list[Settlement]:
        room = min(len(self._ended), LARGEST_BATCH - len(self._sent))
        self._sent += [self._ended.popleft() for _ in range(room)]
        return [settlement for _, settlement in self._sent if settlement is not None]

    def _take_jobs(self, question: Question, answer: Answer) -> None:
        request = question.request
        if request is None or answer.claimed is None:
            return
        jobs = answer.claimed.jobs
        # A short batch says that nothing lies beyond: then look at everything.
        self._hint = answer.claimed.hint if len(jobs) >= request.limit else None
        handlers, bad_news = self._handlers, self._take_bad_news
        runs = [handlers[job.type].run_of(job, request, question.sent_at, bad_news) for job in jobs]
        self._holder.keeper.keep([run.lease for run in runs])
        # All of them together, so that the next claim does not find some of them expired, and count a crash.
        now = ticks()
        self._give_back([run for run in runs if run.lease.valid_until <= now])
        runs = [run for run in runs if now < run.lease.valid_until]
        if self._stop_at is not None:
            self._give_back(runs)
        else:
            self._begin(runs)
        # With a hint it has not looked at everything.
        is_short = len(jobs) < request.limit and request.hint is None
        self._may_find = not is_short or self._quarantine.is_closing
        # While the loop stands still, the store has jobs that are not to be claimed, and waiting there would not wait.
        if not self._may_find and not self._drain and not self.is_loop_stalled:
            self._watch()

    def _begin(self, runs: Sequence[Run]) -> None:
        """Begin what may begin, after the rest was given back: it may be the last thing that this process does."""
        waiting = self._board.withdraw_waiting() if any(run.job.crashes for run in runs) else []
        admitted = self._quarantine.admit(runs)
        rest = [*waiting, *(run for run in runs if run not in admitted)] if len(admitted) < len(runs) else waiting
        if rest:
            self._pace.slow_down()
            self._give_back_at_once(rest)
            # The hint leads past them, and the next claim is meant to find them.
            self._hint = None
        self._board.add(admitted)

    def _give_back_at_once(self, runs: Sequence[Run]) -> None:
        question = Question(settlements=[released(run.lease.hold) for run in runs], request=None, sent_at=ticks())
        answer = self._store.ask(question)
        if answer is None:
            self._give_back(runs)
            return
        self._note_landed(list(zip(runs, question.settlements, strict=True)), answer)
        self._say_how_they_ended(runs)
        self._quarantine.forget(runs)
        self._holder.keeper.end(*(run.lease for run in runs))

    def _take_bad_news(self, lease: Lease) -> None:
        """Tell a handler that its claim is lost, or is to be cancelled. This is called by the keeper."""
        run = self._board.run_with(lease)
        if run is not None:
            self._interrupt(run, Stop.LOST if lease.is_lost else Stop.CANCEL)

    def _note_landed(self, sent: Sequence[tuple[Run, Settlement | None]], answer: Answer) -> None:
        landed = iter(answer.landed)
        outcomes: list[Outcome] = []
        for run, settlement in sent:
            if settlement is None:
                continue
            if next(landed):
                run.note_end(settlement.outcome)
                outcomes.append(settlement.outcome)
            else:
                self._note_loss(run)
        for outcome, same in groupby(outcomes):
            self.summary.note(outcome, len(list(same)))

    def _end_leases(self) -> None:
        """Keep no more what has ended, now that the store knows."""
        for run, settlement in self._sent:
            if settlement is None and run.outcome is None:
                self._note_loss(run)
            elif settlement is None and run.outcome is not None:
                self.summary.note(run.outcome)
        self._say_how_they_ended(run for run, _ in self._sent)
        self._quarantine.forget(run for run, _ in self._sent)
        self._holder.keeper.end(*(run.lease for run, _ in self._sent))
        if self._ledger is not None:
            self._ledger.end(run for run, _ in self._sent)

    def _note_loss(self, run: Run) -> None:
        self.summary.lost += 1
        log.warning("what job %s did is dropped: its claim was lost", run.id, extra=facts(run.job))

    def _say_how_they_ended(self, runs: Iterable[Run]) -> None:
        # Once for all of them: a job that is not told about must not cost anything.
        if not log.isEnabledFor(logging.DEBUG):
            return
        now = ticks()
        for run in runs:
            if run.outcome is not None:
                when = "before it began" if run.started_at is None else f"{now - run.started_at:.2f} s after it began"
                log.debug("job %s (%s) ended as %s, %s", run.id, run.job.type, run.outcome, when, extra=facts(run.job))

    def _give_back_what_waits(self) -> None:
        runs = self._board.withdraw_waiting()
        if self.is_loop_stalled:
            runs += self._board.withdraw_handed()
        self._pace.slow_down()
        self._give_back(runs)

    def _give_back(self, runs: Sequence[Run]) -> None:
        self._ended.extend((run, released(run.lease.hold)) for run in runs)

    def _wait_for_handlers(self, until: Callable[[], float]) -> None:
        # Asked for each time: one that retires may be told to stop.
        while self._board.running and not self._is_hurried and (now := ticks()) < until():
            self.turned_at = now
            if self._ended or self._asked is not None:
                self._trip(0)
            else:
                self._bell.wait(min(LONGEST_WAIT, max(0.0, until() - ticks())))

    def _abandon_handlers(self) -> None:
        """Cancel and interrupt what still runs, and give back what does not end."""
        for run in self._board.begun():
            self._interrupt(run, Stop.SHUTDOWN)
        self._is_hurried = False
        ends_at = ticks() + HURRY
        self._wait_for_handlers(lambda: ends_at)
        self._abandoned.update(self._board.abandon())
        ended = {run for run, _ in (*self._sent, *self._ended)}
        runs = [run for run in self._abandoned if run not in ended]
        self._give_back(runs)
        for run in runs:
            log.warning("job %s did not end with the worker: it is given back", run.id, extra=facts(run.job))

    def _say_the_rest(self) -> None:
        until = ticks() + LAST_WORDS
        while (self._ended or self._asked is not None) and ticks() < until:
            self._trip(0)
        rest = [*self._sent, *self._ended]
        if rest:
            self.summary.unrecorded += len(rest)
            log.error("the store does not answer; jobs whose end is not recorded: %s", len(rest))
            for run, _ in rest:
                log.warning("the end of job %s is not recorded", run.id, extra=facts(run.job))
            self._holder.keeper.end(*(run.lease for run, _ in rest))
