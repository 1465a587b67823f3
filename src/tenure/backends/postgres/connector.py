"""Open connections, and detect whether they go through a transaction pooler.

Settings, prepared statements and LISTEN belong to a session. A transaction pooler assigns a session for each
transaction, so every transaction then starts with our settings, statements are prepared only if the pooler tracks
prepared statements, and LISTEN is not used. The first connection shows which case applies.
"""

import json
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from tenure.backends.postgres import errors as store_errors
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.pipeline import BEGIN, BoundQuery, PipelineConnection
from tenure.backends.postgres.settings import SETTINGS_MARKER, session_settings
from tenure.backends.postgres.statements import Statement, make_statement, make_unprepared

log = logging.getLogger(__name__)

APPLY_SETTINGS = make_statement("select count(set_config(key, value, true)) from json_each_text($1)", "settings")
DETECT_POOLER = make_unprepared("select json_build_array(pg_backend_pid(), current_setting($1, true))", "mark")


class ListenUnsupported(Exception):  # noqa: N818 - an internal signal of the backend
    """The connection goes through a transaction pooler, and the URL has no `notify` option."""


class Connector:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._settings = json.dumps(session_settings(address.timeout))
        self._is_detected = False
        self.is_transaction_pooled = False
        self.uses_prepare = True

    @property
    def opening(self) -> Sequence[BoundQuery]:
        """The queries that open every transaction."""
        return (
            [BoundQuery(BEGIN), BoundQuery(APPLY_SETTINGS, {"settings": self._settings})]
            if self.is_transaction_pooled
            else [BoundQuery(BEGIN)]
        )

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection. Without a pooler, our settings apply to its session."""
        connection = self._open()
        try:
            if not self._is_detected:
                self._detect(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_to_listen(self) -> psycopg.Connection[Any]:
        """Return a new connection with a dedicated session; raise if a pooler makes that impossible."""
        if self._address.notify is not None:
            return self._address.notify.connect(apply_settings=False)
        connection = self.connect()
        if self.is_transaction_pooled:
            connection.close()
            raise ListenUnsupported("the URL leads to a pooler; set '?notify=' to the URL of the server itself")
        return connection

    def pipeline(self, connection: psycopg.Connection[Any]) -> PipelineConnection:
        """Wrap a connection for operations."""
        return PipelineConnection(connection, self._timeout, uses_prepare=self.uses_prepare, opening=self.opening)

    @contextmanager
    def applied_settings(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Apply our settings to statements sent through the driver inside the block."""
        if not self.is_transaction_pooled:
            yield
            return
        with connection.transaction():
            psycopg.RawCursor(connection).execute(APPLY_SETTINGS.text, [self._settings])
            yield

    def disable_prepare(self) -> None:
        """Stop using prepared statements: a transaction pooler is handing us different sessions."""
        if self.uses_prepare:
            log.info("pooler detected, not using prepared statements: %s", self._address.shown)
        self.uses_prepare = False
        self.is_transaction_pooled = True

    @property
    def _timeout(self) -> float:
        return self._address.timeout + self._address.grace

    def _open(self) -> psycopg.Connection[Any]:
        if not self.is_transaction_pooled:
            try:
                return self._address.connect()
            except psycopg.OperationalError as exc:
                if not store_errors.rejects_options(exc):
                    raise
            self.is_transaction_pooled = True
        return self._address.connect(apply_settings=False)

    def _detect(self, connection: psycopg.Connection[Any]) -> None:
        pipeline = PipelineConnection(connection, self._timeout, uses_prepare=True)
        # A pooler reports a backend pid of its own, for cancel requests, and may accept and ignore `options`.
        if pipeline.execute([BoundQuery(DETECT_POOLER, {"mark": SETTINGS_MARKER})]) != [
            [pipeline.backend_pid, SETTINGS_MARKER]
        ]:
            self.is_transaction_pooled = True
        if self.is_transaction_pooled and _tracks_prepared_statements(pipeline):
            log.info("pooler detected, which tracks prepared statements: %s", self._address.shown)
        elif self.is_transaction_pooled:
            self.disable_prepare()
        pipeline.exit_pipeline()
        self._is_detected = True


def _tracks_prepared_statements(connection: PipelineConnection) -> bool:
    """Return whether the pooler tracks prepared statements: if so, the server knows them under other names."""
    name = f"tenure_{secrets.token_hex(12)}"
    prepared = Statement(b"select 1", (), name.encode())
    try:
        # One round trip, hence one session. If the server does know the name, `deallocate` removes the statement again.
        connection.execute([BoundQuery(prepared), BoundQuery(make_unprepared(f"deallocate {name}"))])
    except errors.InvalidSqlStatementName:
        return True
    return False
