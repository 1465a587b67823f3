"""Addresses of test servers: a loopback port, or a socket in the folder of the server."""

import os
import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

# Outside the standard ports of the servers and outside the ephemeral ports: no other program may get the port of a
# server that is down.
PORTS = range(20_000, 32_000)
LOOPBACK = "127.0.0.1"

LONGEST_SOCKET = 100


def free_port(second: int = 0) -> int:
    """Return a free loopback port; the port `second` above is free too."""
    for port in random.sample(PORTS[: len(PORTS) - second], k=100):
        with ExitStack() as candidates, suppress(OSError):
            for each in sorted({port, port + second}):
                candidates.enter_context(socket.socket()).bind((LOOPBACK, each))
            return port
    raise RuntimeError(f"found no free port between {PORTS[0]} and {PORTS[-1]} in a hundred tries; free some")


def must_be_short(path: Path) -> None:
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise RuntimeError(f"socket path {path} is too long; set TMPDIR to a shorter folder")
