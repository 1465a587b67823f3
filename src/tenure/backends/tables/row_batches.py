"""The batches of row operations of an engine; `row_isolation` runs them."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tenure.core.job import Job
from tenure.core.operations import ClaimRequest, Extension, HoldStatus, Reaped, Settled, Settlement

K = TypeVar("K", bound=Hashable)

REJECTION_NOTE = "the table rejected the end of the claim"
NO_EFFECT = "the update has no effect; a trigger skips it, or another transaction has locked the row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaping:
    """Which claims to reap: expired ones, or all claims of a dead worker, of which it had `started` some."""

    worker: str | None = None
    started: Collection[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapedRows(Generic[K]):
    """The claims that a batch reaped, and the keys of expired claims that it could not end."""

    reaped: list[Reaped]
    missed: Sequence[K] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(Generic[K]):
    """The rows that a batch claimed, and the keys of due rows that it did not get.

    If the token held rows before, these rows are returned, and nothing was claimed. `unreaped` are the keys of expired
    claims that could not be ended before.
    """

    jobs: list[Job]
    missed: Sequence[K] = ()
    unreaped: Sequence[K] = ()
    was_held: bool = False


class RowBatches(Protocol[K]):
    """The operations of one engine. Each call is one transaction, and raises `StatementFailed` as a whole.

    A settlement whose update has no effect is `Unsettled`, and such an extension is rejected.
    """

    @property
    def patient(self) -> "RowBatches[K]":
        """The same operations with more time, for a single row."""
        ...

    @property
    def claim_limit(self) -> int:
        """How many rows to claim at once."""
        ...

    @property
    def settle_limit(self) -> int: ...

    @property
    def extend_limit(self) -> int: ...

    @property
    def reap_limit(self) -> int: ...

    def id_of(self, key: K) -> str: ...

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]: ...

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]: ...

    def exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest, avoided: Sequence[K]
    ) -> tuple[list[Settled], Taken[K]]:
        """Settle, reap expired claims, and claim rows, except the avoided ones."""
        ...

    def take(self, request: ClaimRequest, keys: Sequence[K], already_taken: int) -> Taken[K]:
        """Claim these rows, for a token that has claimed `already_taken` rows in earlier batches."""
        ...

    def due_keys(self, limit: int, avoided: Sequence[K]) -> list[K]:
        """Return the keys of the first due rows."""
        ...

    def reap(self, reaping: Reaping, limit: int, avoided: Sequence[K]) -> ReapedRows[K]: ...

    def reap_rows(self, reaping: Reaping, keys: Sequence[K], rejection: str | None = None) -> ReapedRows[K]:
        """Reap the claims of the rows; with a rejection, fail the rows with its message instead."""
        ...

    def keys_to_reap(self, reaping: Reaping, limit: int, avoided: Sequence[K]) -> list[K]: ...
