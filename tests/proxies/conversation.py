"""One client connection through a proxy: two sockets, and a task that copies messages in each direction.

All code runs on the event loop of the proxy: code between two awaits is atomic.
"""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter, Task
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from tests.proxies.points import Place
from tests.proxies.script import Cut, Hold, Order, Script
from tests.proxies.wire import Message, Sender, Wire

WITHOUT_LINGERING = struct.pack("ii", 1, 0)
CLOSING = 5.0
"""Seconds to wait for an orderly close when a peer does not read."""


class End(NamedTuple):
    reader: StreamReader
    writer: StreamWriter


class Conversation:
    def __init__(self, wire: Wire, script: Script, client: End, connect: Callable[[], Awaitable[End]]) -> None:
        self._wire = wire
        self._script = script
        self._client = client
        self._server: End | None = None
        self._connect = connect
        self._pumps: list[Task[None]] = []
        self._kept: list[Message] = []
        self._has_server_left = False
        self._over = asyncio.Event()
        self._is_reset = False
        self._cuts: list[Cut] = []
        self.has_lost_something = False

    async def run(self) -> None:
        """Copy messages until a peer disconnects or the proxy cuts the connection."""
        self._pumps.append(asyncio.create_task(self._begin()))
        await self._over.wait()
        for each in self._pumps:
            each.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        # Close the server side in order: a reset could discard data that the server has not read.
        if self._server is not None:
            if any(cut.seen_off for cut in self._cuts):
                await see_off(self._server)
            await close(self._server.writer)
        # Mark the cuts before the client can see the close, because the test may check them at once.
        for cut in self._cuts:
            cut.mark_done()
        if self._is_reset:
            reset(self._client.writer)
        await close(self._client.writer)

    def end(self, *, reset: bool) -> None:
        """Close both sides; with `reset`, the client gets a connection reset."""
        self._is_reset = reset
        self._over.set()

    def catch_up(self) -> None:
        """Forward the messages that were held."""
        kept, self._kept = self._kept, []
        for message in kept:
            self._write(message)
        if self._has_server_left:
            self._over.set()

    async def _begin(self) -> None:
        try:
            message = await self._first()
            if message is not None:
                self._server = await self._connect()
                self._pumps.append(asyncio.create_task(self._pump("server", self._server.reader)))
                await self._handle(message)
        except OSError:
            self._over.set()
        else:
            await self._pump("client", self._client.reader)

    async def _first(self) -> Message | None:
        """Return the first message to forward; None if the client disconnects or the message is dropped."""
        while (message := await self._wire.first_message(self._client.reader)) is not None:
            if self._swallow(message):
                return None
            if message.own_answer is None:
                return message
            self._client.writer.write(message.own_answer)
        return None

    async def _pump(self, sender: Sender, source: StreamReader) -> None:
        with suppress(OSError):
            while (message := await self._wire.next_message(source, sender)) is not None:
                # After a cut, drop messages that were already read.
                if self._over.is_set():
                    return
                if not self._swallow(message):
                    await self._handle(message)
        self._see_off(sender)

    def _see_off(self, sender: Sender) -> None:
        """End the conversation because `sender` disconnected, unless messages are held or dropped."""
        self._has_server_left = self._has_server_left or sender == "server"
        is_held = sender == "server" and self._kept
        if not is_held and not self._is_lost():
            self._over.set()

    async def _handle(self, message: Message) -> None:
        reached = self._script.reached_by(message)
        self._obey(reached, "before")
        if self._over.is_set():
            return
        if any(each.point.place == "within" for each in reached):
            self._target_of(message).write(message.octets[: len(message.octets) // 2])
            self._obey(reached, "within")
            return
        if message.sender == "server" and self._script.holds:
            self._kept.append(message)
        else:
            self._write(message)
            await self._target_of(message).drain()
        self._obey(reached, "after")

    def _obey(self, orders: Sequence[Order], place: Place) -> None:
        for order in orders:
            if order.point.place != place:
                continue
            if isinstance(order, Cut):
                self._cuts.append(order)
                self.end(reset=order.reset)
            elif isinstance(order, Hold):
                self._script.holds.append(order)
                order.mark_done()

    def _swallow(self, message: Message) -> bool:
        """Return whether the message is dropped; record the dropped message."""
        if self._is_lost():
            self._script.swallowed.append(message)
        return self.has_lost_something

    def _is_lost(self) -> bool:
        """Return whether messages are dropped now. After the first dropped message, all messages are dropped."""
        self.has_lost_something = self.has_lost_something or self._script.is_silent
        return self.has_lost_something

    def _write(self, message: Message) -> None:
        # Record first: the test may check `passed` as soon as the receiver has the message.
        self._script.passed.append(message)
        self._target_of(message).write(message.octets)

    def _target_of(self, message: Message) -> StreamWriter:
        if message.sender == "server":
            return self._client.writer
        assert self._server is not None
        return self._server.writer


def reset(writer: StreamWriter) -> None:
    connection: socket.socket | None = writer.get_extra_info("socket")
    # The peer may have closed the connection; with TLS the socket is then gone.
    with suppress(OSError):
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, WITHOUT_LINGERING)
    writer.transport.abort()


async def see_off(end: End) -> None:
    """Half-close the connection; wait until the peer closes it."""
    with suppress(OSError):
        async with asyncio.timeout(CLOSING):
            end.writer.write_eof()
            await end.reader.read()


async def close(writer: StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(CLOSING):
            await writer.wait_closed()
    except OSError:
        writer.transport.abort()
