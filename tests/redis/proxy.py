"""A proxy between clients and a Redis server that can break connections at a chosen message.

    with Proxy(server) as proxy:
        cut = proxy.drop_answer("EVALSHA")
        use(proxy.url)
        cut.wait()

The base class has the other faults, such as delayed responses and rejected connections.
"""

from pathlib import Path
from ssl import SSLContext
from urllib.parse import SplitResult, parse_qsl, urlsplit

from tests.proxies import proxy
from tests.proxies.points import after, before, from_client
from tests.proxies.proxy import Behind, Reachable
from tests.proxies.script import Cut
from tests.redis.wire import WIRE
from tests.servers.addresses import LOOPBACK
from tests.servers.redis import with_prefix

PORT = 6379


class Proxy(proxy.Proxy):
    def __init__(self, server: Reachable, tls: SSLContext | None = None) -> None:
        self._told = urlsplit(server.url)
        super().__init__(WIRE, behind(self._told), tls)

    @property
    def url(self) -> str:
        """The URL of the server through this proxy."""
        scheme = "redis" if self._tls is None else "rediss"
        login, at, _ = self._told.netloc.rpartition("@")
        return f"{scheme}://{login}{at}{LOOPBACK}:{self.port}/{database(self._told)}"

    def url_of(self, prefix: str) -> str:
        """Return the URL of a store with this prefix, through this proxy."""
        return with_prefix(self.url, prefix)

    def drop_answer(self, to: str, number: int = 1) -> Cut:
        """Pass the `number`-th of these requests on, and cut the connection instead of returning the response."""
        return self.cut(after(from_client(type=to), number), seen_off=True)

    def drop_request(self, name: str, number: int = 1) -> Cut:
        """Cut the connection instead of passing the `number`-th of these requests on."""
        return self.cut(before(from_client(type=name), number))


def behind(told: SplitResult) -> Behind:
    return Path(told.path) if told.scheme == "unix" else (told.hostname or LOOPBACK, told.port or PORT)


def database(told: SplitResult) -> str:
    in_path = "" if told.scheme == "unix" else told.path.strip("/")
    return dict(parse_qsl(told.query)).get("db", in_path or "0")
