"""The store of a test queue: in memory, but it accepts `connection=`.

The caller's transaction is in another database: each operation takes effect at once, and no rollback undoes it.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tenure.backends.memory import Memory
from tenure.core.job import JobRecord
from tenure.core.operations import Enqueued, Extension, HoldStatus, Settled, Settlement
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
    """Applies each operation at once, outside any transaction."""

    store: Memory

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        return self.store.enqueue(records)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return self.store.extend(extensions)

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.store.settle(settlements)

    def is_open(self) -> bool:
        return False

    def belongs_to(self, connection: object) -> bool:  # noqa: ARG002
        return True
