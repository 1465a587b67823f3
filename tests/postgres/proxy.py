"""A proxy in front of a PostgreSQL server that breaks connections at a chosen message.

    with Proxy(server) as proxy:
        cut = proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))
        use(proxy.url)
        cut.wait()

The proxy does not support encryption.
"""

from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from tests.postgres.wire import WIRE
from tests.proxies import proxy
from tests.proxies.proxy import Behind, Reachable
from tests.servers.addresses import LOOPBACK
from tests.servers.postgres import with_schema


class Proxy(proxy.Proxy):
    def __init__(self, server: Reachable) -> None:
        self._told = {name: str(value) for name, value in conninfo_to_dict(server.url).items()}
        super().__init__(WIRE, behind(self._told["host"], self._told.get("port", "5432")))

    @property
    def url(self) -> str:
        """The URL of the server through this proxy."""
        password = f":{quote(self._told['password'], safe='')}" if "password" in self._told else ""
        user = quote(self._told.get("user", "postgres"), safe="")
        return f"postgresql://{user}{password}@{LOOPBACK}:{self.port}/{self._told.get('dbname', '')}"

    def url_of(self, schema: str) -> str:
        """Return the URL, through this proxy, of a store in this schema."""
        return with_schema(self.url, schema)


def behind(host: str, port: str) -> Behind:
    return Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else (host, int(port))
