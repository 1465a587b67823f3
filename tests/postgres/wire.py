"""The messages of PostgreSQL's protocol, version 3.

A message is one byte for its type, four bytes for its length, and a body. The first messages of a client have no type.
The same letter has different meanings from the client and from the server.
"""

from asyncio import IncompleteReadError, StreamReader
from dataclasses import dataclass

from tests.proxies.wire import Sender, Wire

# From a client. In a pipeline a statement is parse, bind, describe, execute, and its text is in parse.
QUERY, PARSE, BIND, DESCRIBE, EXECUTE, SYNC, TERMINATE = "Q", "P", "B", "D", "E", "S", "X"

# From a server.
AUTHENTICATION, PARAMETER, KEY, PARSED, DATA_ROW, COMMAND_COMPLETE = "R", "S", "K", "1", "D", "C"
READY, ERROR = "Z", "E"

LENGTH = 4
ENCRYPTION_REQUESTS = (80877103, 80877104)
CANCEL_REQUEST = 80877102

NO_ENCRYPTION = b"N"


@dataclass(frozen=True, slots=True)
class Message:
    sender: Sender
    type: str
    body: bytes

    @property
    def octets(self) -> bytes:
        return self.type.encode() + (len(self.body) + LENGTH).to_bytes(LENGTH) + self.body

    @property
    def own_answer(self) -> bytes | None:
        """Reject a request for encryption; the client continues without it."""
        return NO_ENCRYPTION if self.asks_for_encryption else None

    @property
    def asks_for_encryption(self) -> bool:
        return self.type == "" and int.from_bytes(self.body[:LENGTH]) in ENCRYPTION_REQUESTS

    @property
    def asks_to_cancel(self) -> bool:
        return self.type == "" and int.from_bytes(self.body[:LENGTH]) == CANCEL_REQUEST

    @property
    def parameters(self) -> dict[str, str]:
        """The startup parameters of a client."""
        names_and_values = self.body[LENGTH:].decode().split("\0")
        return dict(zip(names_and_values[::2], names_and_values[1::2], strict=False))


async def first_message(reader: StreamReader) -> Message | None:
    """Read the startup message of a client; None if the client disconnects."""
    try:
        return Message("client", "", await _body(reader))
    except IncompleteReadError:
        return None


async def next_message(reader: StreamReader, sender: Sender) -> Message | None:
    """Read a whole message; None at the end of the stream."""
    try:
        type = await reader.readexactly(1)
        return Message(sender, type.decode(), await _body(reader))
    except IncompleteReadError:
        return None


async def _body(reader: StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(LENGTH))
    return await reader.readexactly(length - LENGTH)


WIRE = Wire(first_message, next_message)
