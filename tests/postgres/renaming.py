"""How a pooler tracks prepared statements, like PgBouncer since 1.21.

The pooler gives every text a name of its own. If a session has not prepared a text yet, the pooler prepares it first
and hides the response from the client.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.postgres.wire import BIND, DESCRIBE, PARSE, PARSED, READY, SYNC, Message

OF_STATEMENT = b"S"
UNNAMED = b""


class Names:
    """The names of all texts prepared by any client. A text is identified together with its parameter types."""

    def __init__(self) -> None:
        self._names: dict[bytes, bytes] = {}
        self._texts: dict[bytes, bytes] = {}

    def of(self, text: bytes) -> bytes:
        name = self._names.setdefault(text, f"POOLER_{len(self._names)}".encode())
        self._texts[name] = text
        return name

    def parse(self, name: bytes) -> Message:
        return Message("client", PARSE, name + b"\0" + self._texts[name])


@dataclass(slots=True)
class Renaming:
    """The statements prepared in a session, and the kind of every outstanding response; None ends a batch."""

    names: Names
    _prepared: set[bytes] = field(default_factory=set)
    _owed: deque[tuple[bytes, bool] | None] = field(default_factory=deque)

    def to_server(self, message: Message, of_client: dict[bytes, bytes]) -> Iterator[Message]:
        """Yield the replacement of a message; `of_client` maps the client's statement names."""
        if message.type == PARSE:
            name, _, text = message.body.partition(b"\0")
            own = of_client[name] = self.names.of(text) if name else UNNAMED
            # The session has the statement already; it cannot be prepared again, but the client expects a response.
            yield self._parse(message, UNNAMED if own in self._prepared else own, text)
        elif message.type == BIND:
            portal, name, rest = message.body.split(b"\0", 2)
            own = of_client[name] if name else UNNAMED
            yield from self._missing(own)
            yield Message("client", BIND, b"\0".join((portal, own, rest)))
        elif message.type == DESCRIBE and message.body.startswith(OF_STATEMENT):
            own = of_client[message.body[1:-1]] if message.body[1:-1] else UNNAMED
            yield from self._missing(own)
            yield Message("client", DESCRIBE, OF_STATEMENT + own + b"\0")
        else:
            if message.type == SYNC:
                self._owed.append(None)
            yield message

    def is_for_client(self, message: Message) -> bool:
        """Return whether the client expects this response."""
        if message.type == READY:
            # The server sends no responses for messages after a failure.
            while self._owed and self._owed.popleft() is not None:
                pass
        if message.type != PARSED:
            return True
        parsed = self._owed.popleft()
        assert parsed is not None
        name, is_for_client = parsed
        self._prepared.add(name)
        return is_for_client

    def _parse(self, message: Message, name: bytes, text: bytes) -> Message:
        self._owed.append((name, True))
        return Message(message.sender, PARSE, name + b"\0" + text)

    def _missing(self, name: bytes) -> Iterator[Message]:
        if name and name not in self._prepared and (name, True) not in self._owed:
            self._owed.append((name, False))
            yield self.names.parse(name)
