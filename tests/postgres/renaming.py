"""What a pooler does to keep track of prepared statements, as PgBouncer does from 1.21 on.

Every text has a name of the pooler's own. A session that is to use one, and has not prepared it yet, is told to first;
the client that did not ask for that does not hear of it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.postgres.wire import BIND, DESCRIBE, PARSE, PARSED, READY, SYNC, Message

OF_STATEMENT = b"S"
UNNAMED = b""


class Names:
    """The names of all texts that any client has prepared. A text goes with the types of its values."""

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
    """What one session has prepared. Of each answer that it owes it is known what it is about; None ends a batch."""

    names: Names
    _prepared: set[bytes] = field(default_factory=set)
    _owed: deque[tuple[bytes, bool] | None] = field(default_factory=deque)

    def to_server(self, message: Message, of_client: dict[bytes, bytes]) -> Iterator[Message]:
        """Yield what is sent in place of a message; `of_client` is what its names stand for."""
        if message.type == PARSE:
            name, _, text = message.body.partition(b"\0")
            own = of_client[name] = self.names.of(text) if name else UNNAMED
            # A name that the session has already could not be given again, but the client waits for an answer.
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
        """Tell whether an answer is one that the client waits for."""
        if message.type == READY:
            # After one that failed the others are not answered.
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
