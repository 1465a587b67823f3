"""Connections cut at points where locks decide the outcome; tests/stores has the cases common to all servers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, ids_of, request
from tests.operations import REPEATED, stored
from tests.postgres.wire import SYNC
from tests.processes.stage import PATIENCE, until
from tests.proxies.points import after, before, from_client
from tests.servers.servers import Servers, shared_names
from tests.stores.lost_answers import ProxiedPostgres

WAITING = "select pid from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"


@pytest.fixture(params=shared_names())
def proxied(request: pytest.FixtureRequest, servers: Servers) -> Iterator[ProxiedPostgres]:
    with ProxiedPostgres.made(servers, request.param) as proxied:
        yield proxied


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(proxied: ProxiedPostgres, clock: Clock) -> Iterator[PostgreSQL]:
    """A store whose connections are never cut."""
    with closing(proxied.open(clock)) as store:
        yield store


def in_a_thread(action: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Start a function in a thread, which appends the result to the list."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(action()), daemon=True)
    thread.start()
    return thread, answers


def test_jobs_that_are_looked_for_further_down_are_adopted_as_well(
    proxied: ProxiedPostgres, store: PostgreSQL, clock: Clock
) -> None:
    store.enqueue([build_record(id=f"{number:02}") for number in range(60)])
    asked = request(limit=4)
    # The first pass takes one job, and finds all others locked.
    locked = proxied.schema.begun("select from S.jobs where id between '01' and '30' for update")
    with proxied.through(clock) as through, locked:
        made = proxied.proxy.cut(before(proxied.lost_answer.pattern, number=2))

        claimed = through.claim(asked)

    assert made.is_done
    assert ids_of(claimed.jobs) == ["00", "31", "32", "33"]
    assert store.claim(asked) == claimed
    assert store.stats().total("running") == 4


@pytest.mark.parametrize(
    ("operation", "trips", "waiting"),
    # The second settlement does not wait for the locks of the first one: it finds the jobs busy, and is sent again.
    [("enqueue", 1, 2), ("enqueue with keys", 3, 2), ("complete", 1, 1), ("fail", 1, 1)],
)
def test_an_operation_that_is_sent_again_while_the_first_request_is_still_under_way_is_done_once(
    proxied: ProxiedPostgres, store: PostgreSQL, clock: Clock, operation: str, trips: int, waiting: int
) -> None:
    jobs = proxied.given(store, clock)
    name = proxied.schema.schema
    with (
        proxied.through(clock, f"&application_name={name}") as through,
        # The requests wait for this lock after they have locked their jobs.
        proxied.schema.begun("lock table S.counts in share mode") as other,
    ):
        made = proxied.proxy.cut(after(from_client(type=SYNC), number=trips))
        asking, answers = in_a_thread(lambda: REPEATED[operation](through, jobs))
        made.wait()
        until(lambda: len(proxied.schema.execute(WAITING, name)) >= waiting)

        other.rollback()
        asking.join(PATIENCE)

    assert (*answers, stored(store)) == proxied.undisturbed(REPEATED[operation])
