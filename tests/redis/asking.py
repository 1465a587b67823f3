"""A `Server` for tests, and the errors that it raises."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tenure.backends.redis.address import address_of
from tenure.backends.redis.script import Script
from tenure.backends.redis.server import Server
from tenure.backends.urls import mask_password
from tenure.errors import TenureError
from tests.redis.scripts import COUNT, script


def server_at(url: str) -> Server:
    return Server(address_of(url, mask_password(url)), clock=None)


@contextmanager
def opened(url: str) -> Iterator[Server]:
    """Yield a server that has been connected before."""
    with closing(server_at(url)) as server:
        server.run(script("return 1"), [])
        yield server


def count(server: Server) -> Any:
    return server.run(COUNT, [1])


def refusal_of(server: Server, asked: Script = COUNT, *, may_repeat: bool = True) -> TenureError:
    """Return the error of a request."""
    with pytest.raises(TenureError) as raised:
        server.run(asked, [1], may_repeat=may_repeat)
    return raised.value


def refusal_at(url: str) -> TenureError:
    """Return the error of the first request of a new server."""
    with closing(server_at(url)) as server:
        return refusal_of(server)


def in_a_thread(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread
