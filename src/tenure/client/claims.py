"""The claims of one request."""

import logging
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from tenure.client.claim import Claim, Holder
from tenure.core.job import Outcome
from tenure.core.log_fields import facts
from tenure.core.operations import LARGEST_BATCH, Query
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)


C = TypeVar("C", bound=Claim)


class ClaimsOf(list[C], Generic[C]):
    """The claims of one request, in their order. As a block, all are kept alive; the unsettled are released.

    An exception that leaves the block is recorded on the claim that the loop is at, or on the only one, if that is not
    settled: so a job that fails each time is not given back for ever.
    """

    def __init__(self, holder: Holder, claims: Iterable[C] = ()) -> None:
        super().__init__(claims)
        self._holder = holder
        # The list is the caller's to change; what was claimed is not.
        self._all = tuple(list.__iter__(self))
        self._at: C | None = None

    def __iter__(self) -> Iterator[C]:
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
        if not all(claim.is_here() for claim in self._all):
            return
        try:
            self._settle_the_rest(error)
        except StoreUnavailable as exc:
            if error is None:
                raise
            error.add_note(f"tenure: the unsettled claims could not be released: {exc}")
        finally:
            self._holder.keeper.drop([claim.lease for claim in self._all])

    def _take_back_what_was_rolled_back(self) -> None:
        """Hold the jobs again whose completion was part of a transaction of the caller's that came to nothing."""
        unclear = [claim for claim in self._all if claim.is_to_be_asked_for()]
        if unclear:
            found = self._holder.store.find(Query(ids=tuple(claim.id for claim in unclear), limit=LARGEST_BATCH)).jobs
            jobs = {job.id: job for job in found}
            for claim in unclear:
                claim.take_back_if_undone(jobs.get(claim.id))

    def _settle_the_rest(self, error: BaseException | None) -> None:
        self._take_back_what_was_rolled_back()
        rest = [claim for claim in self._all if not claim.is_settled and not claim.lease.is_over]
        if not rest:
            return
        # Whose work the exception comes from, if it can be told.
        blamed = self._all[0] if len(self._all) == 1 else self._at
        settlements = [claim.unanswered or claim.ending_by(error if claim is blamed else None) for claim in rest]
        for claim, settlement, landed in zip(rest, settlements, self._holder.store.settle(settlements), strict=True):
            if claim.result is not None and settlement.outcome is Outcome.RELEASED:
                log.warning(
                    "job %s is released with a result set: use `with claim:` to complete it",
                    claim.id,
                    extra=facts(claim.job),
                )
            claim.note(settlement, landed=landed)


class Claims(ClaimsOf[Claim]):
    """The claims of one request for jobs, in their order. As a block, all are kept alive; the unsettled are released.

    An exception that leaves the block is recorded on the claim that the loop is at, or on the only one, if that is not
    settled: so a job that fails each time is not given back for ever.
    """
