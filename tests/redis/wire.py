"""The messages of Redis's protocol, RESP2 and RESP3.

A request is a list of texts; its type is the first text, in capitals. The type of a server's message is its first
character.
"""

from asyncio import IncompleteReadError, StreamReader
from dataclasses import dataclass

from tests.proxies.wire import Sender, Wire

# From a server.
SIMPLE, ERROR, NUMBER, TEXT, LIST, PUSH = "+", "-", ":", "$", "*", ">"

END = b"\r\n"
COUNTED = b"$!="
"""Types that are followed by a number of bytes."""
LISTS = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}
"""Types that are followed by a number of messages, or twice that number."""
ATTRIBUTES = b"|"


@dataclass(frozen=True, slots=True)
class Message:
    sender: Sender
    octets: bytes

    @property
    def type(self) -> str:
        if self.sender == "server":
            return self.octets[:1].decode()
        words = self.octets.split(END, 3)
        # A plain line is a request too, as typed by a person.
        return words[2 if self.octets.startswith(b"*") else 0].split()[0].decode().upper()

    @property
    def body(self) -> bytes:
        return self.octets

    @property
    def own_answer(self) -> None:
        """The first message of a client goes to the server."""
        return


async def first_message(reader: StreamReader) -> Message | None:
    """Read the first message of a client; None if the client disconnects."""
    return await next_message(reader, "client")


async def next_message(reader: StreamReader, sender: Sender) -> Message | None:
    """Read a complete message; None at the end."""
    try:
        return Message(sender, await _value(reader))
    except IncompleteReadError:
        return None


async def _value(reader: StreamReader) -> bytes:
    line = await reader.readuntil(END)
    kind, rest = line[:1], line[1:]
    if kind in COUNTED and not rest.startswith(b"-"):
        return line + await reader.readexactly(int(rest) + len(END))
    if kind in LISTS:
        # Attributes precede their message.
        number = int(rest) * LISTS[kind] + (kind == ATTRIBUTES)
        return line + b"".join([await _value(reader) for _ in range(number)])
    return line


WIRE = Wire(first_message, next_message)
