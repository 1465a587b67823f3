"""A pooler in front of a PostgreSQL server, like PgBouncer in transaction mode, that changes sessions whenever it can.

    with Pooler(server) as pooler:
        use(pooler.url)

A client has a server session only from the first message of a transaction to its end, and then gets another session
if one is free. So state left in a session is lost for its client, and visible to other clients. The pooler accepts
every client that names the user and the database of the server; libpq opens and authenticates the sessions. The
pooler listens on the loopback interface, without encryption, and runs in a background thread.
"""

import asyncio
import os
import secrets
import socket
import threading
from asyncio import Server as Listener
from asyncio import StreamReader, StreamWriter, Task
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Literal, Protocol, Self, TypeVar
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.postgres.renaming import Names, Renaming
from tests.postgres.wire import (
    AUTHENTICATION,
    ERROR,
    KEY,
    LENGTH,
    NO_ENCRYPTION,
    PARAMETER,
    QUERY,
    READY,
    SYNC,
    TERMINATE,
    Message,
    first_message,
    next_message,
)
from tests.proxies.conversation import close, reset
from tests.proxies.script import PATIENCE
from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.postgres import with_schema

T = TypeVar("T")

Options = Literal["refused", "ignored"]
"""How the pooler handles the startup options of a client."""

WHO = {"user": "user", "database": "dbname"}
"""The startup parameters of a client, by their libpq names."""

AS_IT_PASSES = {"sslmode": "disable", "gssencmode": "disable", "client_encoding": "UTF8"}
IDLE = b"I"
PARAMETERS = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "IntervalStyle",
    "is_superuser",
    "session_authorization",
)


class Reachable(Protocol):
    """The facts that the pooler needs of a server."""

    @property
    def url(self) -> str: ...


class Session:
    """A server session that belongs to the pooler."""

    def __init__(self, connection: psycopg.Connection[Any], reader: StreamReader, writer: StreamWriter) -> None:
        self.connection = connection
        self.reader = reader
        self.writer = writer
        self.renaming: Renaming | None = None
        self.client: Client | None = None
        self.last: Client | None = None


class Client:
    def __init__(self, writer: StreamWriter) -> None:
        self.writer = writer
        self.key = secrets.token_bytes(8)
        self.names: dict[bytes, bytes] = {}
        self.session: Session | None = None
        self._is_within = False
        self._owed = 0

    def asks(self, message: Message) -> None:
        """Record the messages of a client that start work or require a response."""
        self._is_within = message.type not in {QUERY, SYNC}
        self._owed += not self._is_within

    def is_answered_by(self, message: Message) -> bool:
        """Return whether this message ends all work started so far."""
        self._owed -= message.type == READY
        return message.type == READY and message.body == IDLE and self._owed == 0 and not self._is_within


class Pooler:
    def __init__(
        self, server: Reachable, *, sessions: int = 3, options: Options = "refused", keeps_track: bool = False
    ) -> None:
        self._behind = {name: str(value) for name, value in conninfo_to_dict(server.url).items()}
        self._options = options
        self._names = Names() if keeps_track else None
        self._number = sessions
        self._sessions: dict[Session, Task[None]] = {}
        self._idle: deque[Session] = deque()
        self._clients: dict[Task[None], Client] = {}
        self._given_back = asyncio.Condition()
        self._parameters: Mapping[str, str] = {}
        self._listener: Listener | None = None
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pooler", daemon=True)

    @property
    def url(self) -> str:
        """The URL of the server through this pooler."""
        return f"postgresql://{quote(self._behind['user'], safe='')}@{LOOPBACK}:{self.port}/{self._behind['dbname']}"

    def url_of(self, schema: str) -> str:
        """Return the URL, through this pooler, of a store in this schema."""
        return with_schema(self.url, schema)

    @property
    def pids(self) -> set[int]:
        """The pids of all sessions."""
        return {session.connection.info.backend_pid for session in list(self._sessions)}

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _open(self) -> None:
        for _ in range(self._number):
            await self._add_session()
        self._listener = await asyncio.start_server(self._accept, LOOPBACK, self.port)

    async def _close(self) -> None:
        assert self._listener is not None
        self._listener.close()
        for client in self._clients.values():
            reset(client.writer)
        await asyncio.gather(*self._clients, return_exceptions=True)
        for session in list(self._sessions):
            await self._drop(session)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    async def _add_session(self) -> None:
        conninfo = make_conninfo(**{**self._behind, **AS_IT_PASSES})
        connection: psycopg.Connection[Any] = await asyncio.to_thread(lambda: psycopg.connect(conninfo))
        self._parameters = {
            name: value for name in PARAMETERS if (value := connection.info.parameter_status(name)) is not None
        }
        copied = socket.socket(fileno=os.dup(connection.fileno()))
        session = Session(connection, *await asyncio.open_connection(sock=copied))
        session.renaming = None if self._names is None else Renaming(self._names)
        self._sessions[session] = self._loop.create_task(self._answer(session))
        await self._give_back(session)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        client = Client(writer)
        task = self._loop.create_task(self._serve(client, reader))
        self._clients[task] = client
        task.add_done_callback(self._clients.pop)

    async def _serve(self, client: Client, reader: StreamReader) -> None:
        try:
            if await self._is_let_in(client, reader):
                await self._pass_on(client, reader)
        except OSError:
            pass
        finally:
            if client.session is not None:
                # The transaction is still open, so no client can use this session any more.
                await self._replace(client.session)
            await close(client.writer)

    async def _is_let_in(self, client: Client, reader: StreamReader) -> bool:
        while (message := await first_message(reader)) is not None and message.asks_for_encryption:
            client.writer.write(NO_ENCRYPTION)
        if message is None:
            return False
        if message.asks_to_cancel:
            await self._cancel(message.body[LENGTH:])
            return False
        if self._options == "refused" and "options" in message.parameters:
            client.writer.write(refusal("08P01", "unsupported startup parameter: options"))
            return False
        if any(message.parameters[name] != self._behind[of_libpq] for name, of_libpq in WHO.items()):
            client.writer.write(refusal("28000", "no such user, or no such database"))
            return False
        client.writer.write(greeting(self._parameters, client.key))
        return True

    async def _pass_on(self, client: Client, reader: StreamReader) -> None:
        while (message := await next_message(reader, "client")) is not None and message.type != TERMINATE:
            session = client.session or await self._lend(client)
            client.asks(message)
            messages = [message] if session.renaming is None else session.renaming.to_server(message, client.names)
            session.writer.writelines(each.octets for each in messages)
            await session.writer.drain()

    async def _answer(self, session: Session) -> None:
        """Forward messages of the server to the client of this session; drop messages that no client waits for."""
        with suppress(OSError):
            while (message := await next_message(session.reader, "server")) is not None:
                client = session.client
                if client is None or (session.renaming is not None and not session.renaming.is_for_client(message)):
                    continue
                client.writer.write(message.octets)
                if client.is_answered_by(message):
                    await self._take_back(session)
                with suppress(OSError):
                    await client.writer.drain()
        if session.client is not None:
            await close(session.client.writer)
        elif session in self._idle:
            await self._replace(session)

    async def _lend(self, client: Client) -> Session:
        """Wait for a free session, and return a different one than last time if possible."""
        async with self._given_back:
            await self._given_back.wait_for(lambda: self._idle)
        session = next((each for each in self._idle if each.last is not client), self._idle[0])
        self._idle.remove(session)
        session.client = session.last = client
        client.session = session
        return session

    async def _take_back(self, session: Session) -> None:
        if session.client is not None:
            session.client.session = None
        session.client = None
        await self._give_back(session)

    async def _give_back(self, session: Session) -> None:
        self._idle.append(session)
        async with self._given_back:
            self._given_back.notify()

    async def _replace(self, session: Session) -> None:
        await self._drop(session)
        assert self._listener is not None
        if self._listener.is_serving():
            with suppress(psycopg.OperationalError):
                await self._add_session()

    async def _drop(self, session: Session) -> None:
        session.client = None
        del self._sessions[session]
        if session in self._idle:
            self._idle.remove(session)
        session.connection.close()
        await close(session.writer)

    async def _cancel(self, key: bytes) -> None:
        for client in self._clients.values():
            if client.key == key and client.session is not None:
                await asyncio.to_thread(client.session.connection.cancel)


def greeting(parameters: Mapping[str, str], key: bytes) -> bytes:
    """Return the messages for an accepted client."""
    told = [
        Message("server", AUTHENTICATION, bytes(4)),
        *(Message("server", PARAMETER, f"{name}\0{value}\0".encode()) for name, value in parameters.items()),
        Message("server", KEY, key),
        Message("server", READY, IDLE),
    ]
    return b"".join(each.octets for each in told)


def refusal(code: str, reason: str) -> bytes:
    """Return the messages for a rejected client."""
    fields = {"S": "FATAL", "V": "FATAL", "C": code, "M": reason}
    body = "".join(f"{field}{text}\0" for field, text in fields.items()) + "\0"
    return Message("server", ERROR, body.encode()).octets
