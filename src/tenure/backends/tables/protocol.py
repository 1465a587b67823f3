"""The contract of a table of the user's own: all of `Claiming`, and what is about the table itself.

How a row is shown as a job:

- `id` is its key as text; of several columns, a JSON list of their texts, without spaces. An id that no key can be is
  of no row, and no error. `queue` and `type` are the name of the table. `payload` is the row, as its driver gives it,
  without the columns that tenure added. `key`, `timeout` and `meta` are empty.
- A row whose word for the state is none of the words is no job: nobody claims, counts or shows it. Nor is one that
  `where` does not choose, unless it is running; or, with a companion, unless that has a row for it.
  `standing` tells of such a row as well: that `where` does not choose it.
- `run_at` without a value means due since ever. A row that backs off keeps its place in the order.
- The order of a claim: higher priority, if a column plays it; then `order_by`, or else `created_at`, if that is named;
  then the key. `find` goes by the same without the priority.
- `error`, if a column plays it, has the last line of the history that has one; a completion empties it.
- History, progress, result, whether a cancel was asked for, and whether the work was found done are in `record`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from tenure.backends.protocol import Claiming, Transactional
from tenure.core.table.spec import TableSpec


class Severity(StrEnum):
    """How much a finding matters: an error keeps the table from being claimed, a warning does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a table that is to be known, and what to do about it: a sentence, or SQL."""

    severity: Severity
    about: str
    """What was looked at, in a word or two: `column fence`, `index`, `rights`, `trigger`."""
    text: str
    remedy: str | None = None


@runtime_checkable
class TableStore(Claiming, Transactional, Protocol):
    """A table that rows can be claimed from.

    The table is looked at when it is first used. If a column is missing, or of a type that cannot play its role, every
    operation but those below raises `ConfigurationError` that names it, with the SQL or the call that remedies it.
    """

    spec: TableSpec

    def already_done(self, ids: Sequence[str]) -> list[bool]:
        """Tell of each row whether `done_if` holds for it now; False for a row that is not there.

        Only for a table with a `done_if` in SQL.
        """
        ...

    def migrate(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        """Add what is missing to the table, and return the statements that were run; nothing missing, none.

        With `adopt_running_after`, rows that run without a lease get one that ends so many seconds after they were
        started, or after now if that is not known. With `functions`, those for other languages are installed.
        """
        ...

    def outstanding(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        """Return the statements that `migrate` would run."""
        ...

    def sql(self) -> Mapping[str, str]:
        """Return the statements of each operation by its name, to be read: `claim`, `extend`, `settle`, `reap`, others.

        `schema` is all that `migrate` makes, whether it is there or not; `functions`, if the engine has functions.
        """
        ...

    def check(self) -> list[Finding]:
        """Return what is wrong with the table or remarkable about it, the gravest first."""
        ...
