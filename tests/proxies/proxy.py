"""A proxy between clients and a server that cuts, holds or drops messages at chosen points.

    with Proxy(WIRE, behind) as proxy:
        cut = proxy.cut(before(from_server("COMMIT")))
        use(proxy.port)
        cut.wait()

The proxy listens on a loopback port and runs in a separate thread. An order applies to all connections and is carried
out once.
"""

import asyncio
import threading
from asyncio import Server as Listener
from asyncio import StreamReader, StreamWriter, Task
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any, Protocol, Self, TypeVar

from tests.proxies.conversation import Conversation, End
from tests.proxies.points import Point, before, from_server
from tests.proxies.script import PATIENCE, Cut, Hold, Order, Script
from tests.proxies.wire import Message, Wire
from tests.servers.addresses import LOOPBACK, free_port

T = TypeVar("T")

Behind = Path | tuple[str, int]
"""Address of the server: a socket path, or host and port."""


class Reachable(Protocol):
    """The part of a server that a proxy uses."""

    @property
    def url(self) -> str: ...


class Proxy:
    def __init__(self, wire: Wire, behind: Behind, tls: SSLContext | None = None) -> None:
        """With `tls`, use TLS with clients from the first byte; the connection to the server never uses TLS."""
        self._wire = wire
        self._behind = behind
        self._tls = tls
        self.port = free_port()
        self._script = Script()
        self._listener: Listener | None = None
        self._conversations: dict[Task[None], Conversation] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def passed(self) -> list[Message]:
        """The messages that were forwarded completely, in order."""
        return list(self._script.passed)

    @property
    def swallowed(self) -> list[Message]:
        """The messages that `black_hole` dropped, in order."""
        return list(self._script.swallowed)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def cut(self, point: Point, *, reset: bool = False, seen_off: bool = False) -> Cut:
        """Close the connection that reaches the point: in order, or with a reset.

        The server side closes first. With `seen_off`, the client side closes only after the server has ended the
        session.
        """
        cut = Cut(point, reset=reset, seen_off=seen_off)
        self._do(self._add(cut))
        return cut

    def cut_all(self, *, reset: bool = False) -> None:
        """Close all connections now; accept new connections."""
        self._do(self._end(self._conversations, reset=reset))

    @contextmanager
    def holding(self, point: Point | None = None) -> Iterator[Hold]:
        """Hold the server's messages on all connections, from the point or from now on; the server continues to work.

        On exit, the held messages are forwarded.
        """
        hold = Hold(point or before(from_server()))
        if hold.point.place == "within":
            raise ValueError(f"{hold.point} is within a message, and only whole messages are held; use before or after")
        self._do(self._add(hold))
        try:
            yield hold
        finally:
            self._do(self._release(hold))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse new connections; keep existing connections."""
        self._do(self._refuse())
        try:
            yield
        finally:
            self._do(self._listen())

    @contextmanager
    def black_hole(self) -> Iterator[None]:
        """Drop all messages in both directions; accept new connections and never respond.

        A peer is not told that the other peer has disconnected. On exit, connections with dropped messages are reset.
        """
        self._do(self._begin_silence())
        try:
            yield
        finally:
            self._do(self._end_silence())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, LOOPBACK, self.port, ssl=self._tls)

    async def _refuse(self) -> None:
        if self._listener is None:
            return
        for each in self._listener.sockets:
            self._loop.remove_reader(each)
        # Let asyncio hand over accepted sockets before the listener closes: otherwise they would stay open for ever.
        await asyncio.sleep(0)
        self._listener.close()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        conversation = Conversation(self._wire, self._script, End(reader, writer), self._connect)
        task = self._loop.create_task(conversation.run())
        self._conversations[task] = conversation
        task.add_done_callback(self._conversations.pop)

    async def _connect(self) -> End:
        if isinstance(self._behind, Path):
            return End(*await asyncio.open_unix_connection(self._behind))
        return End(*await asyncio.open_connection(*self._behind))

    async def _add(self, order: Order) -> None:
        self._script.orders.append(order)

    async def _end(self, conversations: Mapping[Task[None], Conversation], *, reset: bool) -> None:
        ended = list(conversations)
        for each in conversations.values():
            each.end(reset=reset)
        await asyncio.gather(*ended)

    async def _release(self, hold: Hold) -> None:
        self._script.orders = [each for each in self._script.orders if each is not hold]
        self._script.holds = [each for each in self._script.holds if each is not hold]
        if not self._script.holds:
            for each in self._conversations.values():
                each.catch_up()

    async def _begin_silence(self) -> None:
        self._script.is_silent = True

    async def _end_silence(self) -> None:
        self._script.is_silent = False
        lost = {task: each for task, each in self._conversations.items() if each.has_lost_something}
        await self._end(lost, reset=True)

    async def _close(self) -> None:
        await self._refuse()
        await self._end(self._conversations, reset=True)
        # Tasks of connections that asyncio was about to accept.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
