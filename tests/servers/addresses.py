"""Where servers of the tests listen: on a port of the loopback interface, or on a socket in a folder of their own."""

import os
import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

# Neither the standard ports of anything here, nor those that the system gives to outgoing connections: while the server
# is down, nobody else should get its port.
PORTS = range(20_000, 32_000)
LOOPBACK = "127.0.0.1"

LONGEST_SOCKET = 100


def free_port(second: int = 0) -> int:
    """Return a port of the loopback interface on which nobody listens, nor on the one that is `second` above it."""
    for port in random.sample(PORTS[: len(PORTS) - second], k=100):
        with ExitStack() as candidates, suppress(OSError):
            for each in sorted({port, port + second}):
                candidates.enter_context(socket.socket()).bind((LOOPBACK, each))
            return port
    raise RuntimeError(f"found no free port between {PORTS[0]} and {PORTS[-1]} in a hundred tries; free some")


def must_be_short(path: Path) -> None:
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise RuntimeError(f"socket path {path} is too long; set TMPDIR to a shorter folder")
