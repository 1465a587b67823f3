"""The sessions of the server that our connections get: each its own, or one lent by a pooler for each transaction.

What is set, prepared or listened to stays with a session. So where sessions are lent, every transaction begins with
what it needs set, statements are prepared only if the pooler keeps track of that, and nobody listens. Which of the two
it is shows at the first connection.
"""

import json
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from tenure.backends.postgres import errors as trouble
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.pipeline import BEGIN, Step, Wire
from tenure.backends.postgres.settings import MARK, session_settings
from tenure.backends.postgres.statements import Statement, statement, unprepared

log = logging.getLogger(__name__)

SET = statement("select count(set_config(key, value, true)) from json_each_text($1)", "settings")
WHICH = unprepared("select json_build_array(pg_backend_pid(), current_setting($1, true))", "mark")


class NobodyListens(Exception):  # noqa: N818 - it names a fact, and never leaves the backend
    """Sessions are lent, and no other address is given to listen at."""


class Sessions:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._settings = json.dumps(session_settings(address.timeout))
        self._is_known = False
        self.are_lent = False
        self.prepares = True

    @property
    def opening(self) -> Sequence[Step]:
        """What every transaction begins with."""
        return [Step(BEGIN), Step(SET, {"settings": self._settings})] if self.are_lent else [Step(BEGIN)]

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection; its session is set, if it is our own."""
        connection = self._open()
        try:
            if not self._is_known:
                self._get_to_know(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_to_listen(self) -> psycopg.Connection[Any]:
        """Return a new connection that has a session of its own, or raise if there can be none."""
        if self._address.notify is not None:
            return self._address.notify.connect(is_set=False)
        connection = self.connect()
        if self.are_lent:
            connection.close()
            raise NobodyListens("a pooler stands between; name the server itself with '?notify='")
        return connection

    def wire(self, connection: psycopg.Connection[Any]) -> Wire:
        """Return this connection as operations use it."""
        return Wire(connection, self._timeout, prepares=self.prepares, opening=self.opening)

    @contextmanager
    def are_set(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Have the settings hold for what the driver itself is asked meanwhile."""
        if not self.are_lent:
            yield
            return
        with connection.transaction():
            psycopg.RawCursor(connection).execute(SET.text, [self._settings])
            yield

    def send_whole(self) -> None:
        """Prepare no more: what is prepared in one session is missing in another. So these are lent by now."""
        if self.prepares:
            log.info("%s is behind a pooler; statements are not prepared", self._address.shown)
        self.prepares = False
        self.are_lent = True

    @property
    def _timeout(self) -> float:
        return self._address.timeout + self._address.grace

    def _open(self) -> psycopg.Connection[Any]:
        if not self.are_lent:
            try:
                return self._address.connect()
            except psycopg.OperationalError as exc:
                if not trouble.is_about_options(exc):
                    raise
            self.are_lent = True
        return self._address.connect(is_set=False)

    def _get_to_know(self, connection: psycopg.Connection[Any]) -> None:
        wire = Wire(connection, self._timeout, prepares=True)
        # A pooler tells a number of its own, to cancel by. It may also let options pass and not heed them.
        if wire.ask([Step(WHICH, {"mark": MARK})]) != [[wire.session, MARK]]:
            self.are_lent = True
        if self.are_lent and _is_kept_track_of(wire):
            log.info("%s is behind a pooler, which keeps track of prepared statements", self._address.shown)
        elif self.are_lent:
            self.send_whole()
        wire.leave()
        self._is_known = True


def _is_kept_track_of(wire: Wire) -> bool:
    """Tell whether a pooler keeps track of what is prepared: then it has given that a name of its own."""
    name = f"tenure_{secrets.token_hex(12)}"
    prepared = Statement(b"select 1", (), name.encode())
    try:
        # In one trip, so in one session; and if it has this name there, it is gone again.
        wire.ask([Step(prepared), Step(unprepared(f"deallocate {name}"))])
    except errors.InvalidSqlStatementName:
        return True
    return False
