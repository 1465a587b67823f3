"""A connection in pipeline mode: several statements in one round trip.

It uses libpq's pipeline through the documented `psycopg.pq`; the driver's cursors take several times as long for each
statement. A connection prepares a statement on first use, since planning takes longer than most executions. Behind a
pooler that does not track prepared statements, statements are not prepared.
"""

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
from tenure.core.payload import decode_response

BEGIN = make_statement("begin isolation level read committed read write")
COMMIT = make_statement("commit")
ROLLBACK = make_statement("rollback")

DEEPEST_PAYLOAD = 3
"""A claim returns the columns of the claimed jobs, find returns rows: a list in a list in the list of the result."""

READABLE = select.POLLIN | select.POLLPRI

QueryValues = Mapping[str, Value]


class BoundQuery(NamedTuple):
    statement: Statement
    values: QueryValues = MappingProxyType({})


class ResponseTimeout(psycopg.OperationalError):
    """The server did not respond in time."""


class PipelineConnection:
    """A connection for one thread at a time. Errors other than SQL errors close the connection."""

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
        """Send queries and return the result of each, None without a row; raise the error of the first that fails.

        Queries after the failed one are not executed. The caller has to end a transaction that is still open.
        """
        self.send(queries)
        return self.receive()

    def send(self, queries: Sequence[BoundQuery]) -> None:
        """Send queries. Call `receive` before sending more."""
        # Marks the connection as unusable until all results are read: leftover results would be taken for those of the
        # next request. Not left to `close`, which an interrupt may prevent.
        self._has_unread_results = True
        self._ends_at = time.monotonic() + self._timeout
        try:
            self._prepared_by_message = self._send_queries(queries)
            self._flush(self._ends_at)
        except BaseException:
            self.close()
            raise

    def receive(self) -> list[Any]:
        """Return the results of the queries sent, as `execute` does."""
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
        """Return whether the connection can be reused: open, idle, and without unread input."""
        if not self.is_open or self._pg.transaction_status != pq.TransactionStatus.IDLE:
            return False
        # Unsolicited input on an idle connection means that the server is closing it, or has closed it.
        return not self._poll.poll(0)

    @property
    def is_open(self) -> bool:
        return self._pg.status == pq.ConnStatus.OK and not self._has_unread_results

    @property
    def backend_pid(self) -> int:
        """The backend pid reported when the connection was opened."""
        return self._pg.backend_pid

    def fileno(self) -> int:
        return self._pg.socket

    def received_notifications(self) -> list[str]:
        """Return the payloads of the notifications received so far."""
        self._pg.consume_input()
        return self._drain_notifications()

    def exit_pipeline(self) -> None:
        """Leave pipeline mode, so that the driver can use the connection."""
        self._pg.exit_pipeline_mode()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()

    def _read(self, ends_at: float) -> list[pq.abc.PGresult]:
        """Read all results; return those of queries, and of messages that failed or were skipped after a failure."""
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
                # A pooler may hand us a session on which another client listens; drop its notifications.
                self._drain_notifications()
                return self._query_results(results)
            results.append(result)

    def _query_results(self, results: Sequence[pq.abc.PGresult]) -> list[pq.abc.PGresult]:
        """Record which statements were prepared; return the other results. After a failure nothing is prepared."""
        found: list[pq.abc.PGresult] = []
        for result, prepared in zip(results, self._prepared_by_message, strict=False):
            if prepared is not None and _is_ok(result):
                self._prepared.add(prepared)
            else:
                found.append(result)
        return found

    def _send_queries(self, queries: Sequence[BoundQuery]) -> list[bytes | None]:
        """Send the queries, and prepare each statement on first use.

        Return one item for each message: the name of the statement it prepares, or None if it executes a query.
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
        # The server may send results before it has read everything, and then block until we read.
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
    """Return whether the server closes the connection with this error."""
    return result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) in {b"FATAL", b"PANIC"}


def _parse_result(result: pq.abc.PGresult) -> Any:
    if result.ntuples == 0:
        return None
    value = result.get_value(0, 0)
    return None if value is None else decode_response(value, DEEPEST_PAYLOAD)
