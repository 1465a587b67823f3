"""The store of a rehearsal: in memory, and yet it takes what is said to be part of a transaction of the caller's.

The transaction is in another place, so it is done at once: in a rehearsal nothing of it is undone by a rollback.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tenure.backends.memory import Memory
from tenure.core.job import JobRecord
from tenure.core.operations import Enqueued, Extension, HoldStatus, Settlement
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class ImmediateStore(Memory):
    is_exclusive: ClassVar[bool] = False

    def transaction(self, loop: "AbstractEventLoop | None" = None) -> AbstractContextManager[Any]:  # noqa: ARG002
        raise ConfigurationError(
            "claim.transaction() needs a database, and jobs.testing() has none: test this on SQLite or PostgreSQL, "
            "with jobs.work(drain=True)"
        )

    @contextmanager
    def join(self, connection: object) -> Iterator["ImmediateTransaction"]:  # noqa: ARG002
        yield ImmediateTransaction(self)


@dataclass(frozen=True, slots=True)
class ImmediateTransaction:
    """Does each operation at once."""

    store: Memory

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        return self.store.enqueue(records)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return self.store.extend(extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return self.store.settle(settlements)

    def is_open(self) -> bool:
        return False

    def is_of(self, connection: object) -> bool:  # noqa: ARG002
        return True
