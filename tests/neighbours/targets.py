"""Create the target of a name: a store, or a table as in `tests.tables.harnesses`."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.neighbours.stores import StoreTarget
from tests.neighbours.tables import PostgresTableTarget, SQLiteTableTarget
from tests.neighbours.target import Target
from tests.postgres.stores import new_place
from tests.processes.grounds import SQLITE, Tables, ground_of
from tests.servers.servers import Servers, shared_names, shared_redis_names
from tests.tables import harnesses

MEMORY, SIDECAR = "memory", "sidecar"


def names() -> list[str]:
    return [MEMORY, SQLITE, *shared_names(), *shared_redis_names(), *harnesses.names()]


def default_names() -> list[str]:
    """Return the names, without the older versions of a server."""
    older = (*shared_names()[:-1], *shared_redis_names()[:-1])
    return [name for name in names() if not name.endswith(older)]


@contextmanager
def new_target(name: str, folder: Path, servers: Servers) -> Iterator[Target]:
    """Yield an empty target; remove it on exit."""
    with ExitStack() as stack:
        target = (
            _new_table(name, folder, servers, stack)
            if name in harnesses.names()
            else _new_store(name, folder, servers, stack)
        )
        stack.callback(target.close)
        yield target


def _new_store(name: str, folder: Path, servers: Servers, stack: ExitStack) -> Target:
    if name == MEMORY:
        return StoreTarget(url="memory://")
    ground = stack.enter_context(ground_of(name, folder, servers))
    url = f"{ground.url}&timeout=60"
    if isinstance(ground, Tables):
        return StoreTarget(url=url, server=ground.place.server, schema=ground.place.schema, ground=ground)
    return StoreTarget(url=url, ground=ground)


def _new_table(name: str, folder: Path, servers: Servers, stack: ExitStack) -> Target:
    kind, _, engine = name.partition("-")
    target: SQLiteTableTarget | PostgresTableTarget
    if engine == SQLITE:
        target = SQLiteTableTarget(path=str(folder / "members.db"), is_sidecar=kind == SIDECAR)
    else:
        place = stack.enter_context(new_place(servers.shared(engine).url))
        target = PostgresTableTarget(server=place.server, schema=place.schema, is_sidecar=kind == SIDECAR)
    target.create()
    return target
