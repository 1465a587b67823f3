"""The store of a rehearsal: in memory, and yet it takes what is said to be part of a transaction of the caller's.

The transaction is in another place, so it is done at once: in a rehearsal nothing of it is undone by a rollback.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tenure.backends.memory import Memory
from tenure.core.job import Entry
from tenure.core.operations import Enqueued, Extension, Holding, Settlement
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class RehearsedStore(Memory):
    is_exclusive: ClassVar[bool] = False

    def transaction(self, loop: "AbstractEventLoop | None" = None) -> AbstractContextManager[Any]:  # noqa: ARG002
        raise ConfigurationError(
            "a rehearsal has no database that claim.transaction() could give a connection to; test this on a SQLite "
            "file or on PostgreSQL, with jobs.work(drain=True)"
        )

    @contextmanager
    def joined(self, connection: object) -> Iterator["AtOnce"]:  # noqa: ARG002
        yield AtOnce(self)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Does each operation at once."""

    store: Memory

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:
        return self.store.enqueue(entries)

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        return self.store.extend(extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return self.store.settle(settlements)

    def is_open(self) -> bool:
        return False

    def is_of(self, connection: object) -> bool:  # noqa: ARG002
        return True
