"""Claims jobs for the slots and settles what they ended, both in one round trip wherever possible.

From several sources it claims in turn, each time from another first, until it has as many as it wants in all.

One thread does all of this. It is also the one that sees the worker to its end: it claims no more, waits for the
handlers, gives back what they leave, and is the last to speak to the stores.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from tenure.client.keeper import Lease, ticks
from tenure.client.run import Run, Stop
from tenure.core.job import Outcome
from tenure.core.log_fields import facts
from tenure.core.operations import LARGEST_BATCH, Settlement
from tenure.core.transitions import released
from tenure.errors import StoreUnavailable
from tenure.worker.prefetch import Pace
from tenure.worker.quarantine import Quarantine
from tenure.worker.run_queue import Board
from tenure.worker.started_jobs import Ledger
from tenure.worker.store_retry import Answer, Question
from tenure.worker.summary import Summary
from tenure.worker.wakeup import Bell
from tenure.worker.work_source import Supply

log = logging.getLogger(__name__)

FLUSH = 128
"""How many endings are enough for a trip of their own."""
LINGER = 0.005
"""Seconds that an ending may wait for others, while the slots have enough to do."""
HOLD = 1.0
"""Seconds that a job may wait here for a slot. After that others may have it."""
HURRY = 2.0
"""Seconds that handlers which were cancelled or interrupted have to end."""
LONGEST_WAIT = 1.0
"""Seconds after which it turns, even if nothing happened."""
LAST_WORDS = 5.0
"""Seconds that a worker which has ended tries to tell the store what it did."""


class Claimer:
    """Made for one worker; `run` is its thread. `stop` may be called from anywhere, even a signal handler."""

    def __init__(
        self,
        *,
        name: str,
        supplies: Sequence[Supply],
        board: Board,
        watch: Callable[[Supply], None],
        interrupt: Callable[[Run, Stop], None],
        grace: float,
        drain: bool,
        is_closed: Callable[[], bool],
        ledger: Ledger | None = None,
    ) -> None:
        self.turned_at = ticks()
        self.is_loop_stalled = False
        self._name = name
        self._supplies = supplies
        self._turns = 0
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
        self._abandoned: set[Run] = set()
        self._quarantine = Quarantine(board)
        self._stop_at: float | None = None
        self._ends_at = math.inf
        self._is_hurried = False
        self._last_trip_at = ticks()
        self._done = 0
        if len(supplies) > 1:
            for supply in supplies:
                supply.stand_beside_others(self._bell.ring)

    @property
    def is_store_failing(self) -> bool:
        return any(supply.is_failing for supply in self._supplies)

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
            run.handler.supply.ended.append((run, settlement))
            self._bell.ring()

    def starve(self) -> None:
        """Hear that a slot has nothing to do."""
        self._starved.ring()
        self._bell.ring()

    def look(self, supply: Supply | None = None) -> None:
        """Look whether a source has something, since it may; without one, each of them."""
        for each in self._supplies if supply is None else [supply]:
            each.may_find = True
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
        else:
            self._finish()
        finally:
            for supply in self._supplies:
                supply.end()

    def _finish(self) -> None:
        log.info("the worker %s stops; still running: %s", self._name, len(self._board.running))
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
        awake = [supply for supply in self._supplies if not supply.rests_for(now)]
        ended = sum(len(supply.ended) for supply in awake)
        may_find = any(supply.may_find and supply.types(is_loop_stalled=self.is_loop_stalled) for supply in awake)
        if any(supply.is_owed(now) for supply in awake) or (wanted and (may_find or ended)):
            self._trip(wanted)
        elif ended >= FLUSH or (ended and not self._board.waiting):
            self._trip(0)
        elif ended:
            self._starved.wait(LINGER)
            self._trip(self._wanted())
        elif self._is_drained():
            self.stop()
        elif not self._bell.wait(min(HOLD / 4 if self._board.waiting else LONGEST_WAIT, self._rest(now))):
            # Nobody said that there is something, but who would have said so may be gone.
            self.look()

    def _is_drained(self) -> bool:
        if not self._drain or self._board.size or self.is_loop_stalled:
            return False
        return not any(supply.is_unheard for supply in self._supplies)

    def _rest(self, now: float) -> float:
        """Return after how many seconds a source is to be asked again that did not answer."""
        return min((rest for supply in self._supplies if (rest := supply.rests_for(now))), default=LONGEST_WAIT)

    def _wanted(self) -> int:
        """Return how many jobs to claim."""
        if self._stop_at is not None:
            return 0
        ahead = 0 if self._quarantine.has_suspects else self._pace.ahead
        free = self._board.concurrency - self._board.size
        if free <= 0 and len(self._board.waiting) > ahead // 2:
            return 0
        return self._quarantine.most(max(0, min(LARGEST_BATCH, free + ahead)))

    def _trip(self, wanted: int) -> None:
        """Ask the sources what there is to be asked; one that did not answer the last time, the same again."""
        started_at = ticks()
        runs: list[Run] = []
        claimed: list[Supply] = []
        is_answered = False
        # Not with a trip that only settles: the same one could be first each time that something is claimed.
        self._turns += wanted > 0
        for supply in self._in_turn(started_at):
            # One that had nothing is watched. To one that is told something anyway, a claim costs no trip.
            is_asked = supply.may_find or supply.ended or self._drain
            left = max(0, wanted - len(runs)) if is_asked else 0
            question = supply.question(left, started_at, is_loop_stalled=self.is_loop_stalled)
            if question.settlements or question.request is not None:
                answer = supply.ask(question)
                if answer is None:
                    if self._is_closed():
                        raise StoreUnavailable("the Jobs of this worker is closed; stop the worker first")
                    continue
                is_answered = True
                if question.request is not None and answer.claimed is not None:
                    runs += self._take_jobs(supply, question, answer)
                    claimed.append(supply)
                self._note_landed(supply.sent, answer)
            self._end_leases(supply)
        if claimed:
            self._begin_in_time(runs)
            self._watch_the_empty(claimed)
        # If handlers have settled all of it by themselves, nobody was asked: that does not tell how long a trip takes.
        if is_answered:
            self._note_pace(started_at)

    def _in_turn(self, now: float) -> Iterator[Supply]:
        """Yield the sources that are to be asked, each time another first; but first one that waits to be alone."""
        number = len(self._supplies)
        first = self._quarantine.is_closing_for
        start = self._turns if first is None else self._supplies.index(first)
        for each in range(number):
            supply = self._supplies[(start + each) % number]
            if not supply.rests_for(now):
                yield supply

    def _note_pace(self, started_at: float) -> None:
        # From start to start: what is sent with a trip had ended since the last one began, much of it while that ran.
        self._pace.note(done=self._done, within=started_at - self._last_trip_at, trip=ticks() - started_at)
        self._done, self._last_trip_at = 0, started_at

    def _take_jobs(self, supply: Supply, question: Question, answer: Answer) -> list[Run]:
        if question.request is None or answer.claimed is None:
            return []
        runs = supply.runs_of(question, question.request, answer.claimed, self._take_bad_news)
        supply.keeper.keep([run.lease for run in runs])
        return runs

    def _begin_in_time(self, runs: Sequence[Run]) -> None:
        # All of them together, so that the next claim does not find some of them expired, and count a crash.
        now = ticks()
        self._give_back([run for run in runs if run.lease.valid_until <= now])
        runs = [run for run in runs if now < run.lease.valid_until]
        if self._stop_at is not None:
            self._give_back(runs)
        else:
            self._begin(runs)

    def _watch_the_empty(self, claimed: Sequence[Supply]) -> None:
        """Have those watched that had no more to give."""
        for supply in claimed:
            supply.may_find = supply.may_find or self._quarantine.is_closing
            # While the loop stands still, the store has jobs that are not to be claimed, and waiting there would not
            # wait.
            if not supply.may_find and not self._drain and not self.is_loop_stalled:
                self._watch(supply)

    def _begin(self, runs: Sequence[Run]) -> None:
        """Begin what may begin, after the rest was given back: it may be the last thing that this process does."""
        waiting = self._board.withdraw_waiting() if any(run.job.crashes for run in runs) else []
        admitted = self._quarantine.admit(runs)
        rest = [*waiting, *(run for run in runs if run not in admitted)] if len(admitted) < len(runs) else waiting
        if rest:
            self._pace.slow_down()
            self._give_back_at_once(rest)
        self._board.add(admitted)

    def _give_back_at_once(self, runs: Sequence[Run]) -> None:
        for supply in self._supplies:
            own = [run for run in runs if run.handler.supply is supply]
            if own:
                # The hint leads past them, and the next claim is meant to find them.
                supply.look_anew()
                self._give_back_to(supply, own)

    def _give_back_to(self, supply: Supply, runs: Sequence[Run]) -> None:
        settlements = [released(run.lease.hold) for run in runs]
        answer = supply.tell(settlements)
        if answer is None:
            self._give_back(runs)
            return
        self._note_landed(list(zip(runs, settlements, strict=True)), answer)
        self._say_how_they_ended(runs)
        self._quarantine.forget(runs)
        supply.keeper.end(*(run.lease for run in runs))

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
                self.summary.prevented += settlement.found_done
            else:
                self._note_loss(run)
        for outcome, same in groupby(outcomes):
            self.summary.note(outcome, len(list(same)))

    def _end_leases(self, supply: Supply) -> None:
        """Keep no more what has ended, now that the store knows."""
        for run, settlement in supply.sent:
            if settlement is None and run.outcome is None:
                self._note_loss(run)
            elif settlement is None and run.outcome is not None:
                self.summary.note(run.outcome)
                self.summary.prevented += run.outcome is Outcome.COMPLETED and run.found_done
        self._say_how_they_ended(run for run, _ in supply.sent)
        self._quarantine.forget(run for run, _ in supply.sent)
        supply.keeper.end(*(run.lease for run, _ in supply.sent))
        if self._ledger is not None:
            self._ledger.end(run for run, _ in supply.sent)
        self._done += len(supply.sent)
        supply.sent = []

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
        for run in runs:
            run.handler.supply.ended.append((run, released(run.lease.hold)))

    def _wait_for_handlers(self, until: Callable[[], float]) -> None:
        # Asked for each time: one that retires may be told to stop.
        while self._board.running and not self._is_hurried and (now := ticks()) < until():
            self.turned_at = now
            if any(supply.is_unheard and not supply.rests_for(now) for supply in self._supplies):
                self._trip(0)
            else:
                self._bell.wait(min(LONGEST_WAIT, self._rest(now), max(0.0, until() - ticks())))

    def _abandon_handlers(self) -> None:
        """Cancel and interrupt what still runs, and give back what does not end."""
        for run in self._board.begun():
            self._interrupt(run, Stop.SHUTDOWN)
        self._is_hurried = False
        ends_at = ticks() + HURRY
        self._wait_for_handlers(lambda: ends_at)
        self._abandoned.update(self._board.abandon())
        ended = {run for supply in self._supplies for run, _ in (*supply.sent, *supply.ended)}
        runs = [run for run in self._abandoned if run not in ended]
        self._give_back(runs)
        for run in runs:
            log.warning("job %s did not end with the worker: it is given back", run.id, extra=facts(run.job))

    def _say_the_rest(self) -> None:
        until = ticks() + LAST_WORDS
        while any(supply.is_unheard for supply in self._supplies) and (now := ticks()) < until:
            if all(supply.rests_for(now) for supply in self._supplies if supply.is_unheard):
                time.sleep(self._rest(now))
            self._trip(0)
        rest = [run for supply in self._supplies for run, _ in (*supply.sent, *supply.ended)]
        if rest:
            self.summary.unrecorded += len(rest)
            log.error("the store does not answer; jobs whose end is not recorded: %s", len(rest))
            for run in rest:
                log.warning("the end of job %s is not recorded", run.id, extra=facts(run.job))
                run.handler.supply.keeper.end(run.lease)
