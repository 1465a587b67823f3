"""A process that forks while it listens: `python -m tests.postgres.forked URL` prints its observations as JSON."""

import json
import os
import sys

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.pipeline import PipelineConnection
from tenure.backends.shared import waiter
from tenure.testing.conformance.building import build_record
from tests.postgres.waiting import HOUR, waiting


def listen(store: PostgreSQL) -> list[int]:
    """Wait until the listener is connected; return the pid of its session."""
    while not store._waiter._listener.is_connected:
        store.wait(["nothing"], None, 0.01)
    return [
        each._pg.backend_pid for each in store._waiter._listener.open_handles() if isinstance(each, PipelineConnection)
    ]


def in_a_child(store: PostgreSQL, parents: list[int]) -> int:
    """Listen, enqueue and close in a forked child; return its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        assert not store._waiter._listener.is_connected
        assert listen(store) != parents
        store.enqueue([build_record(id="by a child", queue="other")])
        store.close()
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(url: str) -> None:
    store, other = PostgreSQL(url), PostgreSQL(url)
    before = listen(store)
    code = in_a_child(store, before)
    waiter.LONGEST_POLL = HOUR
    with waiting(store, "mail") as thread:
        other.enqueue([build_record(id="by another", queue="mail")])
    seen = {"child": code, "is the same session": listen(store) == before, "is woken": not thread.is_alive()}
    store.close()
    other.close()
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
