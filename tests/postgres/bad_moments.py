"""Scenes of a fork or interrupt at an inconvenient time: `python -m tests.postgres.bad_moments NAME SERVER SCHEMA …`.

Each scene prints its observations as JSON.
"""

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.statements import make_statement
from tenure.core.operations import Heartbeat, Purge
from tenure.testing.conformance.building import build_completion, build_record, job_of, settle, take_one
from tests.playing import Interrupts, play_in, wait_for
from tests.postgres.stores import Place
from tests.processes.stage import until

LONG = 120
"""Seconds after which an expected event counts as missing."""

BEAT = Heartbeat(name="w1", host="here", pid=1, version="1", concurrency=1, queues=None, types=None, quiet_for=0)

SESSION = make_statement("select to_json(pg_backend_pid())")
SESSIONS = "select pid from pg_stat_activity where application_name = %s"


def play(name: str, place: Place, *arguments: object) -> Any:
    """Run a scene in a new process, and return its output."""
    return play_in("tests.postgres.bad_moments", name, place.server, place.schema, *arguments)


def use(store: PostgreSQL, id: str) -> None:
    """Enqueue, claim and complete a job."""
    store.enqueue([build_record(id=id, queue=id)])
    store.wait((id,), None, LONG)
    taken = take_one(store, queues=(id,), token=f"token of {id}")
    assert taken.id == id
    assert settle(store, build_completion(taken))
    assert job_of(store, id).state == "completed"


def transact(store: PostgreSQL) -> int:
    """Run a transaction, and return the pid of its session."""
    with store.transaction() as connection:
        return int(connection.info.backend_pid)


def forked(action: Callable[[], object]) -> int:
    """Run a function in a forked child that exits normally with all inherited objects; return its process id."""
    child = os.fork()
    if child:
        return child
    signal.alarm(LONG)
    action()
    sys.exit(0)


def child_ends(place: Place) -> object:
    """Fork with connections and a listener open; report whether the parent still has them after the child exits."""
    store = place.open(f"&application_name={place.schema}")
    use(store, "before")
    transacted = transact(store)
    # This wait starts the listener; no job ever arrives.
    threading.Thread(target=store.wait, args=(("never",), None, LONG), daemon=True).start()
    until(lambda: store._waiter._listener.is_connected)
    before = place.execute(SESSIONS, place.schema)
    codes = wait_for([forked(partial(use_another_session, store, before))])
    use(store, "parent")
    has_all = transact(store) == transacted and set(before) <= set(place.execute(SESSIONS, place.schema))
    hears = store._waiter._listener.is_connected
    store.close()
    return {"codes": codes, "has all": has_all, "hears": hears}


def use_another_session(store: PostgreSQL, others: Sequence[tuple[int]]) -> None:
    use(store, "child")
    assert (transact(store),) not in others
    (mine,) = store.database.execute([BoundQuery(SESSION)])
    assert (mine,) not in others


def forked_while_busy(place: Place, number: str) -> object:
    """Fork repeatedly while other threads use the store; each child uses the store as well."""
    store = place.open()
    with busy(store):
        codes = [wait_for([forked(partial(use, store, f"child-{n}"))])[0] for n in range(int(number))]
    store.close()
    return codes


@contextmanager
def busy(store: PostgreSQL) -> Iterator[None]:
    """Run all operations of a store in two threads."""
    numbers, is_over = count(), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            use(store, f"busy-{next(numbers)}")
            store.beat(BEAT, 60)
            store.purge(Purge(older_than=86_400))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    is_over.set()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


def interrupted(place: Place, number: str) -> object:
    """Raise KeyboardInterrupt at random times during many operations, on a store with one connection."""
    store = place.open("&connections=1&timeout=60")
    use(store, "before")
    interrupts, numbers = Interrupts(), count()
    signal.signal(signal.SIGALRM, interrupts)
    while interrupts.raised < int(number):
        before = interrupts.raised
        with suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.03))
            # Python discards exceptions raised during garbage collection.
            while interrupts.raised == before:
                use(store, f"job-{next(numbers)}")
    use(store, "after")
    store.close()
    return interrupts.raised


SCENES: dict[str, Callable[..., object]] = {
    each.__name__: each for each in (child_ends, forked_while_busy, interrupted)
}

if __name__ == "__main__":
    name, server, schema, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(SCENES[name](Place(server, schema), *arguments)))
