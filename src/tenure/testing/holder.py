"""The holder of claims in tests: synchronous progress, and a back-off without randomness."""

from tenure.backends.protocol import Claiming
from tenure.client.claim import Holder
from tenure.client.keeper import Keeper, Lease, ticks
from tenure.core.backoff import Backoff
from tenure.core.job import Progress
from tenure.core.operations import Extension


class ImmediateKeeper(Keeper):
    """Sends progress to the store at once, in the thread of the handler."""

    def report(self, lease: Lease, progress: Progress) -> None:
        sent_at = ticks()
        (status,) = self._extend([Extension(hold=lease.hold, lease=lease.length, progress=progress)])
        self.record_extension(lease, status, sent_at, lease.length)


def holder_of(store: Claiming, backoff: Backoff) -> Holder:
    """Return the holder of claims on this store. The back-off is always the longest that the policy allows."""
    return Holder(store=store, keeper=ImmediateKeeper(store.extend), backoff=backoff, random=lambda: 1.0)
