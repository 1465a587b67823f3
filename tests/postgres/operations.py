"""The expected results of operations that the tests cut off."""

from functools import cache

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.backend import CONCURRENT_SETTLE_MINIMUM
from tenure.testing import Clock
from tests import operations
from tests.operations import Given, Operation, stored
from tests.postgres.stores import new_place
from tests.servers.postgres import Server


def given(store: PostgreSQL, clock: Clock) -> Given:
    """Store jobs, with enough claims held that their completion runs beside a claim."""
    return operations.given(store, clock, held=CONCURRENT_SETTLE_MINIMUM)


@cache
def undisturbed(server: Server, operation: Operation) -> tuple[object, object]:
    """Return the result of an undisturbed operation, and the stored jobs afterwards."""
    clock = Clock()
    with new_place(server.url) as place:
        store = place.open(clock=clock)
        answer = operation(store, given(store, clock))
        everything = stored(store)
        store.close()
    return answer, everything
