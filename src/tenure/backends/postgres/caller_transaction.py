"""Run operations inside the caller's transaction.

Every operation is one call of an SQL function, with any driver: one atomic statement with its own settings. The
caller's role needs no rights on the tables. No lock is taken before the call.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.rows import progress_text
from tenure.connections.caller import CallerConnection
from tenure.core.job import JobRecord, State
from tenure.core.operations import Enqueued, Extension, HoldStatus, Settlement
from tenure.errors import ConfigurationError, KeyTaken


class PostgresTransactionOperations:
    """The operations available inside the caller's transaction."""

    def __init__(
        self,
        database: Database,
        connection: object,
        caller: CallerConnection,
        wake: Callable[[Sequence[JobRecord]], None],
    ) -> None:
        self._database = database
        self._connection = connection
        self._caller = caller
        self._wake = wake
        self._seems_open: Callable[[], bool] = lambda: False
        self._transaction_id: str | None = None

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        rows = self._call("enqueue", jobs=[_job_json(record) for record in records]) if records else []
        for record, (holder, _, is_key_taken) in zip(records, rows, strict=True):
            if is_key_taken:
                raise KeyTaken(key=record.key or "", queue=record.queue, id=holder)
        self._caller.after_commit(lambda: self._wake(records))
        return [Enqueued(id=id, created=created) for id, created, _ in rows]

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        results = self._call("extend", claims=[_extension_json(each) for each in extensions]) if extensions else []
        return [HoldStatus(each) for each in results]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        landed: list[bool] = (
            self._call("settle", claims=[_settlement_json(each) for each in settlements]) if settlements else []
        )
        return landed

    def is_open(self) -> bool:
        # Most drivers cannot distinguish this transaction from the next on the same connection; the server can.
        return (
            self._transaction_id is not None
            and self._seems_open()
            and self._database.is_transaction_open(self._transaction_id)
        )

    def belongs_to(self, connection: object) -> bool:
        return connection == self._connection

    def _call(self, operation: str, **fields: Any) -> Any:
        text = self._database.sql["caller_transaction"][operation]
        request = json.dumps({"store": self._database.identity(), **fields}, ensure_ascii=False)
        response = self._caller.execute(text, request)
        if response is None:
            self._database.reset_identity()
            raise ConfigurationError(
                f"connection leads to another store than {self._database.address.shown!r} (schema "
                f"{self._database.address.schema!r}); pass a connection to the database of the store"
            )
        self._transaction_id, result = json.loads(response)
        self._seems_open = self._caller.transaction_check()
        return result


def _job_json(record: JobRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "type": record.type,
        "payload": record.payload,
        "queue": record.queue,
        "key": record.key,
        "on_conflict": record.on_conflict,
        "priority": record.priority,
        "run_at": None if record.run_at is None else record.run_at.isoformat(),
        "delay": None if record.run_at is not None else record.delay,
        "max_attempts": record.max_attempts,
        "max_crashes": record.max_crashes,
        "timeout": record.timeout,
        "meta": dict(record.meta),
    }


def _extension_json(extension: Extension) -> dict[str, Any]:
    hold, progress = extension.hold, extension.progress
    fields = {"id": hold.id, "fence": hold.fence, "token": hold.token, "lease": extension.lease}
    return fields if progress is None else {**fields, "progress": json.loads(progress_text(progress))}


def _settlement_json(settlement: Settlement) -> dict[str, Any]:
    hold = settlement.hold
    fields = {
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
    return {name: value for name, value in fields.items() if value is not None}
