"""One connection of a client through a proxy: two ends, and a pump in each direction.

Everything here runs on the event loop of the proxy, so between two awaits nothing else happens.
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
"""Seconds for which a side that reads no more may keep us from closing in order."""


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
        """Let messages pass until one side leaves, or it is cut."""
        self._pumps.append(asyncio.create_task(self._begin()))
        await self._over.wait()
        for each in self._pumps:
            each.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        # In order, whatever the client sees: a reset might take from the server what it has not read.
        if self._server is not None:
            if any(cut.seen_off for cut in self._cuts):
                await see_off(self._server)
            await close(self._server.writer)
        # Who sees the end may ask at once whether it was this cut.
        for cut in self._cuts:
            cut.mark_done()
        if self._is_reset:
            reset(self._client.writer)
        await close(self._client.writer)

    def end(self, *, reset: bool) -> None:
        """Close both sides; the client may see it as a reset."""
        self._is_reset = reset
        self._over.set()

    def catch_up(self) -> None:
        """Let pass what was held back."""
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
        """Return the message that is meant for the server; None if the client leaves, or it is swallowed."""
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
                # What is read already is not passed on behind a cut.
                if self._over.is_set():
                    return
                if not self._swallow(message):
                    await self._handle(message)
        self._see_off(sender)

    def _see_off(self, sender: Sender) -> None:
        """Tell the other side that this one left, unless it cannot be told now."""
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
        """Tell whether this message disappears."""
        if self._is_lost():
            self._script.swallowed.append(message)
        return self.has_lost_something

    def _is_lost(self) -> bool:
        """Tell whether what comes now disappears. When anything has, so does all that follows."""
        self.has_lost_something = self.has_lost_something or self._script.is_silent
        return self.has_lost_something

    def _write(self, message: Message) -> None:
        # Recorded first: whoever has received it may ask at once.
        self._script.passed.append(message)
        self._target_of(message).write(message.octets)

    def _target_of(self, message: Message) -> StreamWriter:
        if message.sender == "server":
            return self._client.writer
        assert self._server is not None
        return self._server.writer


def reset(writer: StreamWriter) -> None:
    connection: socket.socket | None = writer.get_extra_info("socket")
    # The other side may have ended it already; with TLS there is no socket any more then.
    with suppress(OSError):
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, WITHOUT_LINGERING)
    writer.transport.abort()


async def see_off(end: End) -> None:
    """Say no more, and wait until the other side has left."""
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
