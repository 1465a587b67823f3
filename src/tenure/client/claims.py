"""The claims of a claim request, as a list and a context manager."""

import logging
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from tenure.client.claim import Claim, Holder
from tenure.client.settling import settle, unsettled_text
from tenure.core.job import Outcome
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import LARGEST_BATCH, Query, Unsettled
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)


C = TypeVar("C", bound=Claim)


class ClaimsOf(list[C], Generic[C]):
    """The claims of one request, in claim order. As a context manager it extends their leases.

    On exit, unsettled claims are released. An exception that leaves the block is recorded on the claim that the loop is
    at, or on the only claim, unless it is settled; otherwise a job that always fails would be released forever.
    """

    def __init__(self, holder: Holder, claims: Iterable[C] = ()) -> None:
        super().__init__(claims)
        self._holder = holder
        # The caller may change the list; all claims must still be kept and settled.
        self._all = tuple(list.__iter__(self))
        self._current: C | None = None

    def __iter__(self) -> Iterator[C]:
        for claim in super().__iter__():
            self._current = claim
            yield claim
        self._current = None

    def __enter__(self) -> Self:
        self._holder.keeper.keep([claim.lease for claim in self._all])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not all(claim.is_in_this_process() for claim in self._all):
            return
        try:
            self._settle_unsettled(error)
        except StoreUnavailable as exc:
            if error is None:
                raise
            error.add_note(f"tenure: could not release the unsettled claims: {exc}")
        finally:
            self._holder.keeper.drop([claim.lease for claim in self._all])

    def _reopen_rolled_back(self) -> None:
        """Hold jobs again whose completion was rolled back with the caller's transaction."""
        unclear = [claim for claim in self._all if claim.needs_commit_check()]
        if unclear:
            found = self._holder.store.find(Query(ids=tuple(claim.id for claim in unclear), limit=LARGEST_BATCH)).jobs
            jobs = {job.id: job for job in found}
            for claim in unclear:
                claim.reopen_if_rolled_back(jobs.get(claim.id))

    def _settle_unsettled(self, error: BaseException | None) -> None:
        self._reopen_rolled_back()
        rest = [claim for claim in self._all if not claim.is_settled and not claim.lease.is_over]
        if not rest:
            return
        # The claim whose work raised the exception, if known.
        blamed = self._all[0] if len(self._all) == 1 else self._current
        settlements = [
            claim.unconfirmed or claim.settlement_for_error(error if claim is blamed else None) for claim in rest
        ]
        results = settle(self._holder.store, settlements)
        for claim, settlement, settled in zip(rest, settlements, results, strict=True):
            if claim.result is not None and settlement.outcome is Outcome.RELEASED:
                log.warning(
                    "job %s released although a result is set: use `with claim:` to complete the job",
                    claim.id,
                    extra=job_log_fields(claim.job),
                )
            claim.record_settlement(settlement, settled)
            if isinstance(settled, Unsettled):
                log.error("%s", unsettled_text(settlement, settled), extra=job_log_fields(claim.job))


class Claims(ClaimsOf[Claim]):
    """The claims of one request, in claim order. As a context manager it extends their leases.

    On exit, unsettled claims are released. An exception that leaves the block is recorded on the claim that the loop is
    at, or on the only claim, unless it is settled; otherwise a job that always fails would be released forever.
    """
