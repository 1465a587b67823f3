"""Requests that name the same jobs in any order do not deadlock."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

import psycopg

from tenure.backends.postgres import PostgreSQL
from tenure.core.operations import Extension, Heartbeat, Move, Purge, Refusal
from tenure.testing.conformance.building import ENDINGS, Taken, build_failure, build_record, take
from tenure.testing.conformance.racing import RACE_TIMEOUT
from tests.postgres.somebody import started
from tests.postgres.stores import Place
from tests.tiers import only_in_all

JOBS = 1_000
SECONDS = 6.0

ENQUEUE = """
insert into S.jobs (id, sequence, queue, type, key, priority, run_at, is_ready, max_crashes, created_at, payload)
select 'late-' || {key!r}, nextval('S.job_sequence'), 'default', 'work', {key!r}, 0, now(), true, 3, now(), '{{}}'
"""

DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


@contextmanager
def somebody_who_waits_for_nobody(place: Place) -> Iterator[Callable[[str], None]]:
    """Yield a function that runs statements in a transaction, which commits at the end and fails instead of waiting."""
    with psycopg.connect(place.server) as connection:
        connection.execute("set local lock_timeout = '50ms'")

        def do(text: str) -> None:
            connection.execute(text.replace("S.", f"{place.schema}.").encode())

        yield do


class Holds:
    """The last claims, shared by all threads."""

    def __init__(self, store: PostgreSQL) -> None:
        self._store = store
        self.taken: list[Taken] = []

    def claim(self) -> None:
        self.taken = take(self._store, limit=JOBS, lease=1.0) or self.taken

    def in_some_order(self) -> list[Taken]:
        return sorted(self.taken, key=lambda each: each.id, reverse=random.random() < 0.5)


def settle_some(store: PostgreSQL, holds: Holds) -> None:
    taken = holds.in_some_order()
    store.settle([random.choice(list(ENDINGS.values()))(each) for each in taken])
    store.enqueue([build_record(id=each.id) for each in taken])


def extend_all(store: PostgreSQL, holds: Holds) -> None:
    taken = holds.in_some_order()
    store.extend([Extension(hold=each.hold, lease=1.0) for each in taken])


def reap_and_move(store: PostgreSQL, holds: Holds) -> None:
    store.reap()
    store.reap(worker="w1")
    ids = [each.id for each in holds.in_some_order()]
    store.move(ids, Move.CANCEL)
    store.move(ids, Move.RETRY)


def purge_and_delete(store: PostgreSQL, holds: Holds) -> None:
    store.purge(Purge(older_than=0))
    store.delete([each.id for each in holds.in_some_order()])


def until_it_is_over(ends_at: float, failures: list[BaseException], action: Callable[[], None]) -> None:
    try:
        while time.monotonic() < ends_at:
            action()
    except BaseException as exc:  # noqa: BLE001 - the test shows it
        failures.append(exc)


def storm(store: PostgreSQL, seconds: float) -> list[BaseException]:
    """Run two threads that settle, and one each that extends, reaps and purges, all on the same jobs."""
    ids = [f"job-{n:04}" for n in range(JOBS)]
    store.enqueue([build_record(id=id, max_attempts=None, max_crashes=1_000_000) for id in ids])
    holds = Holds(store)
    failures: list[BaseException] = []
    actions: Sequence[Callable[[], None]] = [
        holds.claim,
        lambda: settle_some(store, holds),
        lambda: settle_some(store, holds),
        lambda: extend_all(store, holds),
        lambda: reap_and_move(store, holds),
        lambda: purge_and_delete(store, holds),
    ]
    ends_at = time.monotonic() + seconds
    threads = [
        threading.Thread(target=until_it_is_over, args=(ends_at, failures, action), daemon=True) for action in actions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + RACE_TIMEOUT)
    assert not any(thread.is_alive() for thread in threads)
    return failures


@only_in_all
def test_no_deadlock_comes_of_many_who_name_the_same_jobs_in_opposite_orders(place: Place) -> None:
    """Slow: threads lock the same jobs for some seconds."""
    before = place.execute(DEADLOCKS)

    # The threads wait for each other's locks, which may take long on a loaded machine.
    with closing(place.open("&timeout=60")) as store:
        failures = storm(store, SECONDS)

    assert failures == []
    assert place.execute(DEADLOCKS) == before


def test_who_retries_failed_jobs_and_who_enqueues_their_keys_do_not_wait_each_for_each(
    place: Place, store: PostgreSQL
) -> None:
    store.enqueue([build_record(id="a", key="k1"), build_record(id="b", key="k2")])
    store.settle([build_failure(each, final=True) for each in take(store, limit=2)])

    with somebody_who_waits_for_nobody(place) as enqueue:
        enqueue(ENQUEUE.format(key="k1"))
        moving = started(place, lambda: store.move(["b", "a"], Move.RETRY))
        enqueue(ENQUEUE.format(key="k2"))

    assert [each.refusal for each in moving.result(RACE_TIMEOUT)] == [Refusal.KEY_TAKEN] * 2


def test_workers_who_come_back_after_a_long_silence_do_not_wait_each_for_each(place: Place, store: PostgreSQL) -> None:
    for name in ("w1", "w2"):
        store.beat(Heartbeat(name=name, host="h", pid=1, version="1"), ttl=30)
    place.execute("update S.workers set shown_until = now() - interval '3 days'")

    with somebody_who_waits_for_nobody(place) as beat:
        beat("delete from S.workers where name = 'w1'")
        beating = started(place, lambda: store.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), ttl=30))
        beat("update S.workers set shown_until = now() + interval '1 minute' where name = 'w2'")
    beating.result(RACE_TIMEOUT)

    assert [each.name for each in store.workers()] == ["w1", "w2"]
