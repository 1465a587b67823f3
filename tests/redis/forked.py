"""A process that forks during requests: `python -m tests.redis.forked URL` prints the result as JSON."""

import json
import os
import queue
import sys

import redis

from tenure.backends.redis.address import address_of
from tenure.backends.redis.listener import Listener
from tenure.backends.redis.server import Server
from tests.redis.scripts import COUNT

LONG = 120.0
NAME = "family"


class Family:
    """A server and a listener in a parent and its child, and a client to inspect both."""

    def __init__(self, url: str) -> None:
        self.server = Server(address_of(f"{url}&client_name={NAME}", url), clock=None)
        self.channel = self.server.address.key("channel")
        self.heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.changes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.listener = Listener(self.server, self.channel, on_notification=self.heard.put, on_change=self._note)
        self._url = url.partition("?")[0]

    def listen(self) -> None:
        self.listener.ensure_listening()
        assert self.changes.get(timeout=LONG)

    def count(self) -> int:
        return int(self.server.run(COUNT, [1], may_repeat=False))

    def connections(self) -> set[str]:
        with redis.Redis.from_url(self._url) as client:
            return {each["id"] for each in client.client_list() if each["name"] == NAME}

    def publish(self, message: str) -> None:
        with redis.Redis.from_url(self._url) as client:
            client.publish(self.channel, message)

    def _note(self) -> None:
        self.changes.put(self.listener.is_connected)


def in_a_child(family: Family, parents: set[str]) -> int:
    """Send a request and listen in a child; return its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        assert not family.listener.is_connected
        assert family.count() == 2
        family.listen()
        assert len(family.connections() - parents) == 2
        family.listener.close()
        family.server.close()
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(url: str) -> None:
    family = Family(url)
    family.listen()
    with family.server._pool.connection():
        family.count()
        before = family.connections()
        code = in_a_child(family, before)
        seen: dict[str, object] = {"child": code, "count": family.count()}
        seen["are the same"] = before <= family.connections()
    family.publish("for the parent")
    seen["heard"] = family.heard.get(timeout=LONG)
    seen["nothing changed"] = family.changes.empty()
    sys.stdout.write(json.dumps(seen))
    family.listener.close()
    family.server.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
