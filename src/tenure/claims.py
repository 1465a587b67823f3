"""What a taker holds: a claim, and the claims of one request."""

import logging
import os
import threading
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tenure.backends.protocol import Claiming
from tenure.core import checks, transitions
from tenure.core.answers import Answer
from tenure.core.checks import Seconds, known_options
from tenure.core.job import Job, Outcome, Progress
from tenure.core.operations import Extension, Settlement, lease_of
from tenure.core.retry import Backoff, Random
from tenure.errors import ClaimLost, ConfigurationError, InvalidPayload, StoreUnavailable
from tenure.keeper import Keeper, Lease, ticks

log = logging.getLogger(__name__)

TAKEN = "another claim, a reaper or an operator took it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What every claim of a `Jobs` shares."""

    store: Claiming
    keeper: Keeper
    backoff: Backoff
    random: Random
    process: int = field(default_factory=os.getpid)

    def is_here(self) -> bool:
        """Whether this is the process that claimed. A forked child holds nothing of its parent's."""
        return os.getpid() == self.process


class Claim:
    """A job, held. Used as a block it is kept alive, and completed on leaving.

    An exception that leaves the block is recorded by the job's policy and goes on; an interruption releases the job.
    After an explicit ending, leaving does nothing more.
    """

    __slots__ = ("_holder", "_lock", "_outcome", "job", "lease", "result", "unanswered")

    def __init__(self, holder: Holder, job: Job, lease: Lease) -> None:
        self.job = job
        self.lease = lease
        self.result: Any = None
        self.unanswered: Settlement | None = None
        self._holder = holder
        self._lock = threading.Lock()
        self._outcome: Outcome | None = None

    def __repr__(self) -> str:
        status = self._outcome or ("lost" if self.is_lost else "held")
        return f"<Claim of job {self.job.id!r}, type {self.job.type!r}, fence {self.fence}: {status}>"

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def fence(self) -> int:
        return self.lease.hold.fence

    @property
    def token(self) -> str:
        return self.lease.hold.token

    @property
    def is_lost(self) -> bool:
        """Whether the job may be another's by now. It turns true before the store would give the job away."""
        return not self.is_settled and self.lease.is_lost

    @property
    def is_settled(self) -> bool:
        return self._outcome is not None

    @property
    def cancel_requested(self) -> bool:
        """Whether an operator asked for the job to be cancelled, as far as the last extension told."""
        return self.lease.cancel_requested

    def note(self, settlement: Settlement, *, landed: bool) -> None:
        """Take in what the store answered to the settlement of this claim."""
        self.unanswered = None
        if landed:
            self._outcome = settlement.outcome
        self._holder.keeper.end(self.lease)

    def ending_by(self, error: BaseException | None) -> Settlement:
        """Return the settlement that an exception asks for; without one, a release."""
        if isinstance(error, Answer):
            return self._answer(error)
        # What is no Exception, such as KeyboardInterrupt or CancelledError, says nothing about the job.
        return self._failure(error) if isinstance(error, Exception) else transitions.released(self.lease.hold)

    @known_options
    def complete(self, result: Any = None) -> None:
        """End the claim: the job is done, for good."""
        self._settle(transitions.completed(self.lease.hold, result))

    @known_options
    def fail(self, why: str | BaseException, *, final: bool = False) -> None:
        """End the claim: the job is queued again after the back-off, or failed if no attempt is left or it is final."""
        self._settle(self._failure(why, final=final))

    @known_options
    def retry(self, delay: Seconds | None = None, *, why: str | None = None) -> None:
        """End the claim: the job is to be tried again, after `delay` or the back-off."""
        delay = None if delay is None else checks.seconds("delay", delay)
        self._settle(
            transitions.retried(
                self.lease.hold,
                self.job,
                delay=delay,
                why=why,
                backoff=self._holder.backoff,
                random=self._holder.random,
            )
        )

    @known_options
    def snooze(self, delay: Seconds) -> None:
        """End the claim: the job runs again after `delay`, and this was no attempt."""
        self._settle(transitions.snoozed(self.lease.hold, checks.seconds("delay", delay)))

    def release(self) -> None:
        """End the claim: give the job back as if it had not been taken."""
        self._settle(transitions.released(self.lease.hold))

    @known_options
    def cancel(self, why: str | None = None) -> None:
        """End the claim: the job is cancelled."""
        self._settle(transitions.cancelled(self.lease.hold, why))

    @known_options
    def extend(self, lease: Seconds | None = None) -> None:
        """Prolong the lease to at least this long from now; by default, as long as it was asked for."""
        self._extend(self.lease.length if lease is None else lease_of(lease))

    @known_options
    def progress(self, done: float, *, of: float | None = None, note: str | None = None) -> None:
        """Show how far the work has come, and prolong the lease."""
        self._extend(self.lease.length, Progress(done=done, of=of, note=note))

    def __enter__(self) -> Self:
        if self.is_settled:
            raise self._lost(f"it was {self._outcome} before the block was entered")
        if self.is_lost:
            raise self._lost("its lease ran out before the block was entered")
        self._holder.keeper.keep([self.lease])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._holder.is_here():
            return False
        try:
            return self._leave(error)
        finally:
            self._holder.keeper.drop([self.lease])

    def _leave(self, error: BaseException | None) -> bool:
        """Settle by how the block ended; return whether the exception was an answer, and ends here."""
        if self.is_settled or self._is_my_loss(error):
            return False
        if error is None and self.unanswered is None:
            self._settle_result()
            return False
        try:
            # An ending that was sent may have landed: it is sent again, never another in its place.
            self._settle(self.unanswered or self.ending_by(error))
        except (ClaimLost, StoreUnavailable) as exc:
            if error is None:
                raise
            # The error of the work matters more than that of the bookkeeping; it goes on, and carries the other.
            error.add_note(f"tenure: this could not be recorded: {exc}")
            return False
        return isinstance(error, Answer)

    def _is_my_loss(self, error: BaseException | None) -> bool:
        return isinstance(error, ClaimLost) and (error.id, error.fence) == (self.id, self.fence)

    def _settle_result(self) -> None:
        if isinstance(self.result, Answer):
            self._settle(self._answer(self.result))
            return
        if isinstance(self.result, type) and issubclass(self.result, Answer):
            mistake = ConfigurationError(f"give an answer such as tenure.Retry(), not the class {self.result.__name__}")
            self._settle(self._failure(mistake))
            raise mistake
        try:
            ending = transitions.completed(self.lease.hold, self.result)
        except InvalidPayload as exc:
            # The work is done and must not be repeated for the sake of a result that cannot be kept.
            self._settle(transitions.completed_without_result(self.lease.hold))
            raise InvalidPayload(f"job {self.id!r} is completed, but {exc}") from None
        self._settle(ending)

    def _answer(self, answer: Answer) -> Settlement:
        holder = self._holder
        return transitions.answered(self.lease.hold, self.job, answer, backoff=holder.backoff, random=holder.random)

    def _failure(self, why: str | BaseException, *, final: bool = False) -> Settlement:
        error = "".join(traceback.format_exception(why)) if isinstance(why, BaseException) else why
        holder = self._holder
        return transitions.failed(
            self.lease.hold, self.job, error, final=final, backoff=holder.backoff, random=holder.random
        )

    def _settle(self, settlement: Settlement) -> None:
        with self._lock:
            self._must_be_held()
            is_first = self.unanswered in (None, settlement)
            self.unanswered = settlement
            (landed,) = self._holder.store.settle([settlement])
            self.note(settlement, landed=landed)
        if not landed:
            raise self._lost(TAKEN if is_first else f"{TAKEN}, or an earlier ending of yours has landed unanswered")

    def _extend(self, lease: float, progress: Progress | None = None) -> None:
        self._must_be_held()
        sent_at = ticks()
        extension = Extension(hold=self.lease.hold, lease=lease, progress=progress)
        (holding,) = self._holder.store.extend([extension])
        self._holder.keeper.note(self.lease, holding, sent_at, lease)
        if self.lease.is_over:
            self._holder.keeper.end(self.lease)
            raise self._lost(TAKEN)

    def _must_be_held(self) -> None:
        if self._outcome is not None:
            raise self._lost(f"it was {self._outcome} already")
        if not self._holder.is_here():
            raise self._lost(f"it is held by process {self._holder.process}, not by this forked one")

    def _lost(self, why: str) -> ClaimLost:
        return ClaimLost(
            f"the claim of job {self.id!r} with fence {self.fence} is over: {why}; nothing was written",
            id=self.id,
            fence=self.fence,
        )


class Claims(list[Claim]):
    """The claims of one request, in their order. As a block, all are kept alive; the unsettled are released.

    An exception that leaves the block is recorded on the claim that the loop is at, or on the only one, if that is not
    settled: so a job that fails each time is not given back for ever.
    """

    def __init__(self, holder: Holder, claims: Iterable[Claim] = ()) -> None:
        super().__init__(claims)
        self._holder = holder
        # The list is the caller's to change; what was claimed is not.
        self._all = tuple(list.__iter__(self))
        self._at: Claim | None = None

    def __iter__(self) -> Iterator[Claim]:
        for claim in super().__iter__():
            self._at = claim
            yield claim
        self._at = None

    def __enter__(self) -> Self:
        self._holder.keeper.keep([claim.lease for claim in self._all])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._holder.is_here():
            return
        try:
            self._settle_the_rest(error)
        except StoreUnavailable as exc:
            if error is None:
                raise
            error.add_note(f"tenure: the unsettled claims could not be released: {exc}")
        finally:
            self._holder.keeper.drop([claim.lease for claim in self._all])

    def _settle_the_rest(self, error: BaseException | None) -> None:
        rest = [claim for claim in self._all if not claim.is_settled and not claim.lease.is_over]
        if not rest:
            return
        # Whose work the exception comes from, if it can be told.
        blamed = self._all[0] if len(self._all) == 1 else self._at
        settlements = [claim.unanswered or claim.ending_by(error if claim is blamed else None) for claim in rest]
        for claim, settlement, landed in zip(rest, settlements, self._holder.store.settle(settlements), strict=True):
            if claim.result is not None and settlement.outcome is Outcome.RELEASED:
                log.warning("job %s is released with a result set: use `with claim:` to complete it", claim.id)
            claim.note(settlement, landed=landed)
