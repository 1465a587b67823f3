"""One attempt at a job by a command: it runs while the claim is held, and the job is settled by how it ended."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tenure.cli.exec_process import OUTPUT_KEPT, Command, Ended
from tenure.cli.exit_codes import complain, told
from tenure.cli.json_output import plain
from tenure.cli.signals import Signals, is_from_terminal
from tenure.client.claim import TAKEN, Claim
from tenure.client.keeper import ticks
from tenure.client.run import Stop
from tenure.core import transitions
from tenure.core.answers import Retry
from tenure.core.checks import clean
from tenure.core.job import Outcome
from tenure.core.operations import Settlement
from tenure.core.payload import LONGEST, encode
from tenure.errors import ClaimLost, ConfigurationError, StoreUnavailable, TenureError
from tenure.signals import SIGNALS

TRY_AGAIN = 75
"""The exit code by which a command asks to be tried again: EX_TEMPFAIL, of sysexits.h."""
HURRY = 10.0
"""Seconds that a command has to end when it was told to, until it is killed."""
PATIENCE = 30.0
"""Seconds for which a store that does not answer is told the end of a job."""
MOMENT = 0.1
"""Seconds in which a signal to all of our group reaches us, after it has ended the command."""
STEP = 0.5
"""Seconds after which the claim is looked at, though nobody told of a loss: whoever would may be held up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is run for each job, and what its ends mean."""

    command: tuple[str, ...]
    grace: float
    give_up_on: frozenset[int]
    keeps_result: bool
    url: str | None


class Attempt:
    """Made for one claim, and run once, in the main thread. `why` says in a few words why it ended as it did."""

    def __init__(self, claim: Claim, order: Order, signals: Signals) -> None:
        self._claim = claim
        self._order = order
        self._signals = signals
        self.why = ""
        self._stop: Stop | None = None
        self._outcome: Outcome | None = None
        claim.lease.on_bad_news = lambda _: signals.wake()

    def run(self) -> Outcome | None:
        """Return how the claim ended; None if it was lost, and nothing was written."""
        try:
            with self._claim:
                ended = self._work()
                self.why = ended.how if self._stop is None else f"{self._stop}; {ended.how}"
                self._record(self._settlement(ended))
        except ClaimLost as exc:
            complain(told(exc))
            return None
        except StoreUnavailable as exc:
            raise StoreUnavailable(
                f"the work on job {self._claim.id!r} is done, but its end ({self._outcome}) is not recorded, as the "
                f"store did not answer for {PATIENCE:g} s: {exc}; the job is run again when its lease has run out"
            ) from exc
        return self._outcome

    def _work(self) -> Ended:
        try:
            command = Command(
                self._order.command,
                environment=self._environment(),
                payload=f"{encode(plain(self._claim.job.payload), 'payload')}\n",
                keeps_output=self._order.keeps_result,
            )
        except OSError as exc:
            with suppress(TenureError):
                self._claim.release()
            raise ConfigurationError(f"{self._order.command[0]!r} cannot be run: {exc.strerror}") from None
        with command:
            self._watch(command)
            return command.ended()

    def _environment(self) -> dict[str, str]:
        claim, job = self._claim, self._claim.job
        hold = {"id": claim.id, "fence": claim.fence, "token": claim.token}
        return {
            "TENURE_ID": claim.id,
            "TENURE_FENCE": str(claim.fence),
            "TENURE_TOKEN": claim.token,
            "TENURE_CLAIM": json.dumps(hold, separators=(",", ":")),
            "TENURE_ATTEMPT": str(job.attempts),
            "TENURE_TYPE": job.type,
            "TENURE_QUEUE": job.queue,
            **({} if self._order.url is None else {"TENURE_URL": self._order.url}),
        }

    def _watch(self, command: Command) -> None:
        """Return when the command has ended, by itself or because it had to."""
        timeout = self._claim.job.timeout
        limit_at = None if timeout is None else ticks() + timeout
        kill_at: float | None = None
        while command.is_running():
            now = ticks()
            stop = self._reason_to_stop(now, limit_at)
            # A loss weighs more than any other reason: who has lost the job is not to go on through a long grace.
            if stop is not None and (self._stop is None or (stop is Stop.LOST and self._stop is not Stop.LOST)):
                self._stop = stop
                kill_at = now + (self._order.grace if stop is Stop.SHUTDOWN else HURRY)
                if not (stop is Stop.SHUTDOWN and is_from_terminal(self._signals.received[0])):
                    command.ask_to_end()
            if len(self._signals.received) > 1 or (kill_at is not None and now >= kill_at):
                command.kill()
            next_at = kill_at if kill_at is not None else limit_at
            self._signals.wait(STEP if next_at is None or next_at <= now else min(STEP, next_at - now))
        # A signal to all of our group, as Ctrl-C is, may have ended the command before it was heard or looked at here.
        until = ticks() + MOMENT
        while command.killer() in SIGNALS and not self._signals.received and (now := ticks()) < until:
            self._signals.wait(until - now)
        if self._stop is None and self._signals.received:
            self._stop = Stop.SHUTDOWN

    def _reason_to_stop(self, now: float, limit_at: float | None) -> Stop | None:
        if self._claim.is_lost:
            return Stop.LOST
        if self._claim.cancel_requested:
            return Stop.CANCEL
        if self._signals.received:
            return Stop.SHUTDOWN
        return Stop.TIME_LIMIT if limit_at is not None and now >= limit_at else None

    def _settlement(self, ended: Ended) -> Settlement:
        """Return how the job ends, by how the command did and why it was stopped, if it was."""
        claim, hold = self._claim, self._claim.lease.hold
        if self._stop is Stop.LOST:
            raise claim.lost(TAKEN if claim.lease.is_over else "its lease could not be extended in time")
        if self._stop is Stop.TIME_LIMIT:
            return claim.failure(f"its time limit of {claim.job.timeout:g} s has passed: {ended}")
        if ended.code == 0:
            return self._completion(ended)
        if self._stop is Stop.CANCEL:
            return transitions.cancelled(hold, f"{self._stop}; {ended.how}")
        return transitions.released(hold) if self._stop is Stop.SHUTDOWN else self._failure(ended)

    def _failure(self, ended: Ended) -> Settlement:
        claim = self._claim
        if ended.code in self._order.give_up_on:
            return claim.failure(str(ended), final=True)
        if ended.code == TRY_AGAIN:
            return claim.ending_by(Retry(why=str(ended)))
        return claim.failure(str(ended))

    def _completion(self, ended: Ended) -> Settlement:
        hold = self._claim.lease.hold
        if not self._order.keeps_result:
            return transitions.completed(hold)
        if ended.output is None:
            complain(f"the result of job {hold.id!r} has more than {OUTPUT_KEPT:,} bytes and is dropped")
            return transitions.completed_without_result(hold)
        settlement, mistake = self._claim.ending_with(result_of(ended.output))
        if mistake is not None:
            complain(told(mistake))
        elif settlement.result_dropped:
            complain(f"the result of job {hold.id!r} has more than {LONGEST:,} bytes of JSON and is dropped")
        return settlement

    def _record(self, settlement: Settlement) -> None:
        """Tell the store how the job ended; if it does not answer, again, at last by leaving the block."""
        self._outcome = settlement.outcome
        until = ticks() + PATIENCE
        is_said = False
        while True:
            try:
                return self._claim.settle(settlement)
            except StoreUnavailable as exc:
                if ticks() >= until or len(self._signals.received) > 1:
                    return None
                if not is_said:
                    complain(f"the store does not answer, trying on for {PATIENCE:g} s: {told(exc)}")
                is_said = True
            self._signals.wait(STEP)


def result_of(output: bytes) -> Any:
    """Return what a command wrote as the result of its job: what the JSON says, else the text, None for nothing."""
    text = clean(output.decode(errors="replace")).rstrip("\r\n")
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text or None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
