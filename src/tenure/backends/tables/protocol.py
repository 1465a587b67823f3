"""The contract of a user's table: all of `Claiming`, and operations on the table itself.

How a row appears as a job:

- `id` is the key as text; for a key of several columns, a JSON list of texts without spaces. An id that cannot be a key
  matches no row, and is not an error. `queue` and `type` are the name of the table. `payload` is the row as the driver
  returns it, without the columns that tenure added. `key`, `timeout` and `meta` are empty.
- A row with an unknown state value is not a job: no operation claims, counts or shows the row. The same holds
  for a row that `where` does not match, unless the row is running or has a row in the sidecar table. `explain` still
  returns such a row, and reports that `where` does not match.
- `run_at` without a value means that the row has always been due. A row that backs off keeps its position in the order.
- Claim order: higher priority first, if a column has that role; then `order_by`, or else `created_at`, if given; then
  the key. `find` uses the same order without the priority.
- `error`, if a column has that role, contains the last error in the history; a completion sets it to null.
- `record` contains history, progress, result, a requested cancel, and whether the work was found done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from tenure.backends.protocol import Claiming, Transactional
from tenure.core.operations import STUCK_AFTER
from tenure.core.table.spec import TableSpec


class Severity(StrEnum):
    """Severity of a finding. With an error, rows cannot be claimed; with a warning, they can."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem or remark about a table, with a remedy: a sentence or SQL."""

    severity: Severity
    about: str
    """The object of the finding, in a word or two: `column fence`, `index`, `rights`, `trigger`."""
    text: str
    remedy: str | None = None


STUCK_TEXT = (
    f"a lease that expired more than {STUCK_AFTER / 60:g} minutes ago: no worker claims from the table, or the table "
    "rejects the end of these claims"
)
STUCK_REMEDY = "start a worker; if one runs, look for 'not reaped' in its log, and fix the constraint or trigger"


@runtime_checkable
class TableStore(Claiming, Transactional, Protocol):
    """A table whose rows can be claimed.

    The first operation checks the table. If a column is missing, or has a type that does not fit its role, every
    operation except those below raises `ConfigurationError` with the name of the column, and the SQL or call that fixes
    the table.
    """

    spec: TableSpec

    def already_done(self, ids: Sequence[str]) -> list[bool]:
        """Return for each row whether `done_if` holds now; False for a missing row.

        Requires a `done_if` in SQL.
        """
        ...

    def migrate(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        """Add missing columns, indexes or the sidecar table, and return the statements that were run.

        With `adopt_running_after`, running rows without a lease get a lease. The lease expires that many seconds after
        the start of the row, or after now if the start is unknown. With `functions`, the SQL functions for clients in
        other languages are installed.
        """
        ...

    def outstanding(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        """Return the statements that `migrate` would run."""
        ...

    def sql(self) -> Mapping[str, str]:
        """Return the SQL of each operation by name, for people to read: `claim`, `extend`, `settle`, `reap` and others.

        `schema` is everything that `migrate` creates, present or not. `functions` is included if the engine has
        functions.
        """
        ...

    def check(self) -> list[Finding]:
        """Return problems and remarks about the table, the most severe first."""
        ...
