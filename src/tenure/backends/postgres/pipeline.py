"""A connection that sends several statements at once and reads all their answers: one round trip.

This is libpq's pipeline, by the driver's documented `psycopg.pq`. The driver's own cursors would take several times as
long over each statement. Statements are prepared when a connection first sends them, since planning would take longer
than most of them do; where a pooler stands between, whose sessions do not remember them, they are sent whole.
"""

import json
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg
from psycopg import pq

from tenure.backends.postgres.encoding import Value, encode
from tenure.backends.postgres.statements import Statement, make_statement

BEGIN = make_statement("begin isolation level read committed read write")
COMMIT = make_statement("commit")
ROLLBACK = make_statement("rollback")

READABLE = select.POLLIN | select.POLLPRI

QueryValues = Mapping[str, Value]


class BoundQuery(NamedTuple):
    statement: Statement
    values: QueryValues = MappingProxyType({})


class ResponseTimeout(psycopg.OperationalError):
    """The server did not answer in time."""


class PipelineConnection:
    """One connection; one thread uses it at a time. After an error other than the server's own it is closed."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        timeout: float,
        *,
        uses_prepare: bool,
        opening: Sequence[BoundQuery] = (BoundQuery(BEGIN),),
    ) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._timeout = timeout
        self.uses_prepare = uses_prepare
        self.opening = opening
        self._prepared: set[bytes] = set()
        self._has_unread_results = False
        self._prepared_by_message: list[bytes | None] = []
        self._ends_at = 0.0
        self._poll = select.poll()
        self._poll.register(self._pg.socket, READABLE)
        self._pg.enter_pipeline_mode()

    def execute(self, queries: Sequence[BoundQuery]) -> list[Any]:
        """Send all of them, and return what each answers, None for nothing; raise for the first that fails.

        What follows the one that failed is not done. If a transaction is open it is the caller's to end.
        """
        self.send(queries)
        return self.receive()

    def send(self, queries: Sequence[BoundQuery]) -> None:
        """Send all of them; the answers are to be received before anything else is sent."""
        # Answers that are left in it would be taken for those of the next. Closing it may be interrupted as well.
        self._has_unread_results = True
        self._ends_at = time.monotonic() + self._timeout
        try:
            self._prepared_by_message = self._send_queries(queries)
            self._flush(self._ends_at)
        except BaseException:
            self.close()
            raise

    def receive(self) -> list[Any]:
        """Return what each of those that were sent answers, as `ask` does."""
        try:
            results = self._read(self._ends_at)
        except BaseException:
            self.close()
            raise
        self._has_unread_results = False
        for result in results:
            if not _is_ok(result):
                raise psycopg.errors.error_from_result(result)
        return [_parse_result(result) for result in results]

    def is_usable(self) -> bool:
        """Tell whether it may be used again: open, in no transaction, and with nothing to say that nobody asked for."""
        if not self.is_open or self._pg.transaction_status != pq.TransactionStatus.IDLE:
            return False
        # The server speaks first only to say that it ends the connection, or that it has.
        return not self._poll.poll(0)

    @property
    def is_open(self) -> bool:
        return self._pg.status == pq.ConnStatus.OK and not self._has_unread_results

    @property
    def backend_pid(self) -> int:
        """The number of its session, as it was told at the beginning."""
        return self._pg.backend_pid

    def fileno(self) -> int:
        return self._pg.socket

    def received_notifications(self) -> list[str]:
        """Return the payloads of the notifications that have come."""
        self._pg.consume_input()
        return self._drain_notifications()

    def exit_pipeline(self) -> None:
        """Let the driver have the connection back."""
        self._pg.exit_pipeline_mode()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()

    def _read(self, ends_at: float) -> list[pq.abc.PGresult]:
        """Read everything; return what came back up to the first that failed."""
        results: list[pq.abc.PGresult] = []
        while True:
            while self._pg.is_busy():
                self._wait(READABLE, ends_at)
                self._pg.consume_input()
            result = self._pg.get_result()
            if result is None:
                if self._pg.status != pq.ConnStatus.OK:
                    raise psycopg.OperationalError(self._pg.get_error_message())
                continue
            if _is_fatal(result):
                raise psycopg.errors.error_from_result(result)
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                # A pooler may have given us a session that somebody listens on; what it hears would pile up.
                self._drain_notifications()
                return self._query_results(results)
            results.append(result)

    def _query_results(self, results: Sequence[pq.abc.PGresult]) -> list[pq.abc.PGresult]:
        """Return those that answer, and those that failed; note what is prepared: after one that failed, nothing is."""
        found: list[pq.abc.PGresult] = []
        for result, prepared in zip(results, self._prepared_by_message, strict=False):
            if prepared is not None and _is_ok(result):
                self._prepared.add(prepared)
            else:
                found.append(result)
        return found

    def _send_queries(self, queries: Sequence[BoundQuery]) -> list[bytes | None]:
        """Send the statements, each prepared when it comes for the first time.

        Return of each message the name that it prepares, None if it asks something.
        """
        messages: list[bytes | None] = []
        for (text, names, name), values in queries:
            given = [encode(values[each]) for each in names]
            is_prepared = self.uses_prepare and name
            if is_prepared and name not in self._prepared and name not in messages:
                self._pg.send_prepare(name, text)
                messages.append(name)
            if is_prepared:
                self._pg.send_query_prepared(name, given)
            else:
                self._pg.send_query_params(text, given)
            messages.append(None)
        self._pg.pipeline_sync()
        return messages

    def _drain_notifications(self) -> list[str]:
        payloads: list[str] = []
        while (notification := self._pg.notifies()) is not None:
            payloads.append(notification.extra.decode(errors="replace"))
        return payloads

    def _flush(self, ends_at: float) -> None:
        # The server may answer before it has read everything, and then waits for us to read.
        while self._pg.flush():
            if self._wait(READABLE | select.POLLOUT, ends_at) & READABLE:
                self._pg.consume_input()

    def _wait(self, events: int, ends_at: float) -> int:
        self._poll.modify(self._pg.socket, events)
        try:
            found = self._poll.poll(max(0.0, ends_at - time.monotonic()) * 1000)
        finally:
            self._poll.modify(self._pg.socket, READABLE)
        if not found:
            raise ResponseTimeout(f"the server did not respond within {self._timeout:g} s")
        return found[0][1]


def _is_ok(result: pq.abc.PGresult) -> bool:
    return result.status in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}


def _is_fatal(result: pq.abc.PGresult) -> bool:
    """Tell whether the server ends the connection with this."""
    return result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) in {b"FATAL", b"PANIC"}


def _parse_result(result: pq.abc.PGresult) -> Any:
    if result.ntuples == 0:
        return None
    value = result.get_value(0, 0)
    return None if value is None else json.loads(value)
