"""A proxy between clients and a server that can be told to break, message by message.

    with Proxy(WIRE, behind) as proxy:
        cut = proxy.cut(before(from_server("COMMIT")))
        use(proxy.port)
        cut.wait()

It listens on a port of the loopback interface, and runs in a thread of its own. What it was told holds for all of its
connections, and each order is carried out once.
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
"""Where the server listens: at a socket, or on a port of a host."""


class Reachable(Protocol):
    """A server as far as a proxy knows it."""

    @property
    def url(self) -> str: ...


class Proxy:
    def __init__(self, wire: Wire, behind: Behind, tls: SSLContext | None = None) -> None:
        """With `tls` it speaks that with clients, from the first byte on; with the server it never does."""
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
        """The messages that were passed on whole, in this order."""
        return list(self._script.passed)

    @property
    def swallowed(self) -> list[Message]:
        """The messages that disappeared in a black hole, in this order."""
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
        """Close the connection on which this point is reached: in order, or with a reset.

        The server learns of it first. With `seen_off` the client does only when the server has ended the session.
        """
        cut = Cut(point, reset=reset, seen_off=seen_off)
        self._do(self._add(cut))
        return cut

    def cut_all(self, *, reset: bool = False) -> None:
        """Close all connections now; new ones are welcome."""
        self._do(self._end(self._conversations, reset=reset))

    @contextmanager
    def holding(self, point: Point | None = None) -> Iterator[Hold]:
        """Keep back what the server sends, on all connections, from this point or from now on; the server goes on.

        On leaving all that was kept back passes.
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
        """Refuse new connections, as if nobody listened. Those that there are stay."""
        self._do(self._refuse())
        try:
            yield
        finally:
            self._do(self._listen())

    @contextmanager
    def black_hole(self) -> Iterator[None]:
        """Let everything disappear, on either side: new connections are accepted, and nothing is ever answered.

        Nobody learns that the other side has left. Connections on which something disappeared do not come back: when
        this is over they are reset.
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
        # Whoever was accepted just now becomes a conversation while there is a listener, or else stays open for ever.
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
        # Connections that were about to be accepted.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
