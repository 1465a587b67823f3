"""What the claims in a test share: nothing is done later, and nothing is left to chance."""

from tenure.backends.protocol import Claiming
from tenure.client.claim import Holder
from tenure.client.keeper import Keeper, Lease, ticks
from tenure.core.backoff import Backoff
from tenure.core.job import Progress
from tenure.core.operations import Extension


class ImmediateKeeper(Keeper):
    """Tells the store at once what a handler reports, in the handler's own thread."""

    def report(self, lease: Lease, progress: Progress) -> None:
        sent_at = ticks()
        (status,) = self._extend([Extension(hold=lease.hold, lease=lease.length, progress=progress)])
        self.record_extension(lease, status, sent_at, lease.length)


def holder_of(store: Claiming, backoff: Backoff) -> Holder:
    """Return the holder of claims on this store. Their back-off is the longest that the policy allows."""
    return Holder(store=store, keeper=ImmediateKeeper(store.extend), backoff=backoff, random=lambda: 1.0)
