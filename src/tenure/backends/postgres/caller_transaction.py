"""Operations that are part of a transaction of the caller's.

Each is one call of a function in the store, whatever the driver: one statement, which happens wholly or not at all,
under settings of its own, and for which the caller's role needs no right on any table. Nothing is locked before it.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.rows import progress_text
from tenure.connections.caller import Caller
from tenure.core.job import Entry, State
from tenure.core.operations import Enqueued, Extension, Holding, Settlement
from tenure.errors import ConfigurationError, KeyTaken


class Joined:
    """What can be done in the transaction of this caller."""

    def __init__(
        self, database: Database, connection: object, caller: Caller, ring: Callable[[Sequence[Entry]], None]
    ) -> None:
        self._database = database
        self._connection = connection
        self._caller = caller
        self._ring = ring
        self._seems_open: Callable[[], bool] = lambda: False
        self._number: str | None = None

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:
        rows = self._ask("enqueue", jobs=[_job(entry) for entry in entries]) if entries else []
        for entry, (holder, _, is_key_taken) in zip(entries, rows, strict=True):
            if is_key_taken:
                raise KeyTaken(key=entry.key or "", queue=entry.queue, id=holder)
        self._caller.after_commit(lambda: self._ring(entries))
        return [Enqueued(id=id, created=created) for id, created, _ in rows]

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        answers = self._ask("extend", claims=[_extension(each) for each in extensions]) if extensions else []
        return [Holding(each) for each in answers]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        landed: list[bool] = self._ask("settle", claims=[_ending(each) for each in settlements]) if settlements else []
        return landed

    def is_open(self) -> bool:
        # Most drivers cannot tell the transaction from the next one on the same connection; the server can.
        return self._number is not None and self._seems_open() and self._database.is_open(self._number)

    def is_of(self, connection: object) -> bool:
        return connection == self._connection

    def _ask(self, operation: str, **asked: Any) -> Any:
        text = self._database.texts["join"][operation]
        request = json.dumps({"store": self._database.identity(), **asked}, ensure_ascii=False)
        answer = self._caller.ask(text, request)
        if answer is None:
            self._database.forget_identity()
            raise ConfigurationError(
                f"connection leads to another store than {self._database.address.shown!r} (schema "
                f"{self._database.address.schema!r}); one transaction can only hold both if they are in one database"
            )
        self._number, answered = json.loads(answer)
        self._seems_open = self._caller.in_transaction()
        return answered


def _job(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "type": entry.type,
        "payload": entry.payload,
        "queue": entry.queue,
        "key": entry.key,
        "on_conflict": entry.on_conflict,
        "priority": entry.priority,
        "run_at": None if entry.run_at is None else entry.run_at.isoformat(),
        "delay": None if entry.run_at is not None else entry.delay,
        "max_attempts": entry.max_attempts,
        "max_crashes": entry.max_crashes,
        "timeout": entry.timeout,
        "meta": dict(entry.meta),
    }


def _extension(extension: Extension) -> dict[str, Any]:
    hold, progress = extension.hold, extension.progress
    asked = {"id": hold.id, "fence": hold.fence, "token": hold.token, "lease": extension.lease}
    return asked if progress is None else {**asked, "progress": json.loads(progress_text(progress))}


def _ending(settlement: Settlement) -> dict[str, Any]:
    hold = settlement.hold
    asked = {
        "id": hold.id,
        "fence": hold.fence,
        "token": hold.token,
        "outcome": settlement.outcome,
        "result": None if settlement.result is None else json.loads(settlement.result),
        "result_dropped": settlement.result_dropped or None,
        "delay": settlement.delay,
        "error": settlement.error,
        "final": settlement.state is State.FAILED or None,
    }
    return {name: value for name, value in asked.items() if value is not None}
