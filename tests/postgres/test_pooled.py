"""All operations work through a pooler in transaction mode, and leave no state in the sessions."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Protocol
from urllib.parse import quote

import psycopg
import pytest

import tenure
from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.settings import session_settings
from tenure.backends.postgres.statements import make_statement
from tenure.backends.shared import waiter
from tenure.core.operations import BUSY, Heartbeat, Move, Query
from tenure.errors import ConfigurationError, StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_record,
    ids_of,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.operations import NOT_REPEATED, REPEATED, stored
from tests.postgres.operations import given, undisturbed
from tests.postgres.pooler import Pooler
from tests.postgres.scenes import play
from tests.postgres.stores import Place
from tests.postgres.waiting import HOUR, listen, waiting
from tests.processes.stage import PATIENCE, until
from tests.servers.postgres import Server
from tests.tiers import first_in_all_tiers, only_in_all

SESSIONS = 3
OPERATIONS = {**REPEATED, **NOT_REPEATED}

SETTINGS = make_statement("select json_object_agg(name, setting) from pg_settings where name = any ($1)", "names")
LEFT = """
    select
        pg_backend_pid(),
        array(select name from pg_settings where source = 'session' and name <> 'application_name'),
        array(select name from pg_prepared_statements where name like 'tenure%%'),
        array(select pg_listening_channels()),
        array(select locktype from pg_locks where pid = pg_backend_pid() and locktype = 'advisory')
"""
"""Session state that the next client would see. PgBouncer sets the application name itself."""
OPEN = """
    select pid, state, query
    from pg_stat_activity
    where state like 'idle in transaction%%' and query like %s
"""
REMEDY = "the URL leads to a pooler; set '?notify=' to the URL of the server itself"
ALL_LOCKED = "select from S.jobs for update"


class Between(Protocol):
    """A pooler with three sessions."""

    @property
    def url(self) -> str: ...
    def url_of(self, schema: str) -> str: ...


@pytest.fixture
def pooler(postgres: Server) -> Iterator[Between]:
    with Pooler(postgres, sessions=SESSIONS) as pooler:
        yield pooler


@pytest.fixture(params=["options are refused", "options are ignored", "what is prepared is kept track of"])
def any_pooler(request: pytest.FixtureRequest, postgres: Server) -> Iterator[Between]:
    with Pooler(
        postgres,
        sessions=SESSIONS,
        options="ignored" if request.param == "options are ignored" else "refused",
        keeps_track=request.param == "what is prepared is kept track of",
    ) as pooler:
        yield pooler


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(pooler: Between, place: Place, options: str = "", clock: Clock | None = None) -> PostgreSQL:
    return PostgreSQL(pooler.url_of(place.schema) + options, clock=clock)


def in_threads(number: int, action: Callable[[int], object]) -> None:
    threads = [threading.Thread(target=action, args=(n,), daemon=True) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)


def left_in_the_sessions(pooler: Between) -> list[tuple[list[str], ...]]:
    """Return settings, prepared statements, channels and locks of all sessions at the same time."""
    with ExitStack() as clients:
        connections = [clients.enter_context(psycopg.connect(pooler.url)) for _ in range(SESSIONS)]
        found = [connection.execute(LEFT).fetchall()[0] for connection in connections]
    assert len({pid for pid, *_ in found}) == SESSIONS
    return [tuple(left) for _, *left in found]


NOTHING: list[tuple[list[str], ...]] = [([], [], [], [])] * SESSIONS


@pytest.mark.parametrize("operation", first_in_all_tiers(OPERATIONS))
def test_an_operation_answers_and_stores_the_same_and_leaves_nothing_behind(
    postgres: Server, place: Place, pooler: Between, clock: Clock, operation: str
) -> None:
    with closing(opened(pooler, place, clock=clock)) as store:
        jobs = given(store, clock)

        answer = OPERATIONS[operation](store, jobs)

        assert (answer, stored(store)) == undisturbed(postgres, OPERATIONS[operation])
    assert left_in_the_sessions(pooler) == NOTHING


def test_what_is_seen_through_a_pooler_is_what_is_there(place: Place, pooler: Between, clock: Clock) -> None:
    beat = Heartbeat(name="w", host="h", pid=1, version="1", concurrency=1, queues=None, types=("work",))
    looks: list[Callable[[PostgreSQL], Any]] = [
        lambda store: store.find(Query()),
        lambda store: store.stats(),
        lambda store: store.counts(3600),
        lambda store: store.workers(),
        lambda store: store.explain("due", None, None),
    ]
    with closing(opened(pooler, place, clock=clock)) as store, closing(place.open(clock=clock)) as direct:
        given(store, clock)
        store.pause(["paused", "resumed"])
        store.resume(["resumed"])
        store.beat(beat, 60)

        assert [look(store) for look in looks] == [look(direct) for look in looks]


def test_a_worker_drains_a_queue_with_many_at_once(place: Place, pooler: Between) -> None:
    runs: list[str] = []
    with tenure.Jobs(pooler.url_of(place.schema)) as jobs:

        @jobs.task
        def work() -> None:
            runs.append(tenure.current().id)

        ids = jobs.enqueue_many(work.job() for _ in range(300))

        jobs.work(concurrency=8, drain=True)

        assert jobs.stats().total("completed") == 300
    assert sorted(runs) == sorted(ids)
    assert left_in_the_sessions(pooler) == NOTHING


@only_in_all
def test_claims_are_kept(place: Place, pooler: Between) -> None:
    with tenure.Jobs(pooler.url_of(place.schema)) as jobs:
        id = jobs.enqueue("work")
        with jobs.claim(lease=3) as (claim,):
            first = claim.job.leased_until
            assert first is not None
            until(lambda: job_of(jobs._backend, id).leased_until != first)
            claim.complete()

        assert job_of(jobs._backend, id).state == "completed"


@only_in_all
def test_many_more_clients_than_sessions_take_each_job_once(place: Place, pooler: Between) -> None:
    taken: list[str] = []

    def take_all(_: int) -> None:
        with closing(opened(pooler, place)) as store:
            while claims := take(store, limit=5):
                taken.extend(each.id for each in claims if settle(store, build_completion(each)))

    with closing(opened(pooler, place)) as store:
        store.enqueue([build_record(id=f"{n:03}") for n in range(200)])

        in_threads(12, take_all)

        assert sorted(taken) == [f"{n:03}" for n in range(200)]
        assert store.stats().total("completed") == 200


@only_in_all
def test_many_who_make_the_tables_at_once_all_find_a_store(place: Place, pooler: Between) -> None:
    def enqueue(n: int) -> None:
        with closing(opened(pooler, place)) as store:
            store.enqueue([build_record(id=str(n))])

    in_threads(2 * SESSIONS, enqueue)

    with closing(opened(pooler, place)) as store:
        assert store.migrate().before == store.migrate().now
        assert sorted(ids_of(store.find(Query()).jobs)) == [str(n) for n in range(2 * SESSIONS)]
    assert left_in_the_sessions(pooler) == NOTHING


@only_in_all
def test_a_store_that_is_open_can_be_used_on_both_sides_of_a_fork(place: Place, pooler: Between) -> None:
    """Slow: processes fork and work on both sides."""
    seen = play("forked", Place(pooler.url, place.schema))

    assert seen["codes"] == [0] * 5
    assert seen["states"] == ["completed"] * 10
    assert left_in_the_sessions(pooler) == NOTHING


def test_settings_hold_in_every_transaction_and_not_after_it(place: Place, any_pooler: Between) -> None:
    # The order of day and month in DateStyle stays that of the server.
    wanted = {**session_settings(3), "DateStyle": "ISO, MDY"}
    with closing(opened(any_pooler, place, "&timeout=3")) as store:
        asked = BoundQuery(SETTINGS, {"names": f"{{{','.join(wanted)}}}"})

        found = [store.database.execute([asked]) for _ in range(2 * SESSIONS)]
        talked = store.database.transact(lambda ask: ask([asked]))

    assert found == [talked] * 2 * SESSIONS == [[wanted]] * 2 * SESSIONS
    assert left_in_the_sessions(any_pooler) == NOTHING


@only_in_all
def test_a_row_that_another_keeps_locked_is_waited_for_as_long_as_the_url_says(
    place: Place, any_pooler: Between
) -> None:
    with (
        closing(opened(any_pooler, place)) as store,
        closing(opened(any_pooler, place, "&timeout=0.5")) as impatient,
    ):
        store.enqueue([build_record(id="one"), build_record(id="two")])
        held = take_one(store)
        with place.begun(ALL_LOCKED):
            assert impatient.settle([build_completion(held)]) == [BUSY]
            with pytest.raises(StoreUnavailable, match=r"took more than 0\.5 s"):
                impatient.move(["two"], Move.CANCEL)

        assert place.execute(OPEN, f"%{place.schema}%") == []
        assert settle(store, build_completion(held))
    assert left_in_the_sessions(any_pooler) == NOTHING


@only_in_all
def test_a_schema_that_another_keeps_locked_is_waited_for_as_long_as_the_url_says(
    place: Place, any_pooler: Between
) -> None:
    place.open().migrate()
    with (
        place.begun("lock table S.versions"),
        closing(opened(any_pooler, place, "&timeout=0.5")) as store,
        pytest.raises(StoreUnavailable, match=r"took more than 0\.5 s"),
    ):
        store.stats()


def test_a_client_that_ends_in_a_transaction_leaves_none_open(place: Place, pooler: Between) -> None:
    with closing(opened(pooler, place)) as store:
        store.enqueue([build_record(id="one")])
        lock = make_statement(f"select to_json(id) from {place.schema}.jobs for update")

        with store.database._pool.connection() as wire:
            wire.execute([*wire.opening, BoundQuery(lock)])
            wire.close()

        until(lambda: not place.execute(OPEN, f"%{place.schema}%"))
        assert store.move(["one"], Move.CANCEL)[0].moved


def test_statements_are_prepared_only_where_the_pooler_keeps_track_of_them(
    place: Place, any_pooler: Between, request: pytest.FixtureRequest
) -> None:
    keeps_track = "kept track of" in request.node.name
    with closing(opened(any_pooler, place)) as store:
        for _ in range(2 * SESSIONS):
            store.enqueue([build_record()])
            settle(store, build_completion(take_one(store)))

        with store.database._pool.connection() as wire:
            assert wire.uses_prepare is keeps_track
            assert bool(wire._prepared) is keeps_track


def test_a_pooler_that_forgets_what_was_prepared_is_noticed_by_that(place: Place, pooler: Between) -> None:
    with closing(opened(pooler, place)) as store:
        store.stats()
        # As if the pooler had tracked prepared statements before.
        store.database.connector.uses_prepare = True
        store.database._pool._close_idle()

        for _ in range(2 * SESSIONS):
            store.enqueue([build_record()])

        assert not store.database.connector.uses_prepare
        assert store.stats().total("due") == 2 * SESSIONS


def test_an_address_that_comes_to_lead_to_a_pooler_is_noticed_by_that(place: Place, postgres: Server) -> None:
    with Pooler(postgres, sessions=SESSIONS, options="ignored") as pooler, closing(opened(pooler, place)) as store:
        store.stats()
        sessions = store.database.connector
        # As if the URL had led to the server itself before.
        sessions.is_transaction_pooled, sessions.uses_prepare = False, True
        store.database._pool._close_idle()

        for _ in range(2 * SESSIONS):
            store.enqueue([build_record()])

        assert (sessions.is_transaction_pooled, sessions.uses_prepare) == (True, False)
        assert store.stats().total("due") == 2 * SESSIONS


def test_nobody_listens_through_a_pooler_and_that_is_said_once_with_the_remedy(
    place: Place, any_pooler: Between, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with closing(opened(any_pooler, place)) as store, closing(opened(any_pooler, place)) as other:
        with waiting(store, "mail") as thread:
            other.enqueue([build_record(queue="mail")])

        assert not thread.is_alive()
        until(lambda: store._waiter._listener._thread is None)
        store.wait(["nothing"], None, 0.01)
        assert store._waiter._listener._thread is None
    assert [record.message for record in caplog.records if "LISTEN" in record.message] == [
        f"LISTEN unavailable, polling once a second: {REMEDY}"
    ]
    assert left_in_the_sessions(any_pooler)[0][2] == []


def test_who_has_another_url_to_listen_at_is_woken(
    postgres: Server, place: Place, pooler: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify = f"&notify={quote(postgres.url, safe='')}"
    with closing(opened(pooler, place, notify)) as store, closing(opened(pooler, place, notify)) as other:
        listen(store)
        monkeypatch.setattr(waiter, "LONGEST_POLL", HOUR)

        with waiting(store, "mail") as thread:
            other.enqueue([build_record(queue="mail")])

        assert not thread.is_alive()
    assert left_in_the_sessions(pooler) == NOTHING


def test_options_of_the_users_own_are_told_to_be_refused(place: Place, pooler: Between) -> None:
    with (
        closing(opened(pooler, place, "&options=-c%20work_mem%3D77MB")) as store,
        pytest.raises(ConfigurationError, match=r"rejects options: .*; remove 'options' from the URL and PGOPTIONS"),
    ):
        store.claim(request())


def test_without_a_pooler_sessions_are_set_once_and_statements_prepared(place: Place) -> None:
    with closing(place.open()) as store:
        store.enqueue([build_record()])

        with store.database._pool.connection() as wire:
            assert (len(wire.opening), wire.uses_prepare) == (1, True)
        assert not store.database.connector.is_transaction_pooled


def test_a_transaction_of_the_callers_holds_the_effect_and_the_completion(place: Place, any_pooler: Between) -> None:
    with tenure.Jobs(any_pooler.url_of(place.schema)) as jobs:
        jobs.enqueue_many(tenure.NewJob("work", id=id) for id in ("by the claim", "joined", "lost"))
        place.execute("create table S.effects (job text)")
        by_the_claim, joined, lost = jobs.claim(limit=3)
        effect = f"insert into {place.schema}.effects values (%s)"

        with by_the_claim.transaction() as connection:
            connection.execute(effect, ["by the claim"])
            jobs.enqueue("next", id="next", connection=connection)
        with psycopg.connect(any_pooler.url, prepare_threshold=None) as own:
            own.execute(effect.encode(), ["joined"])
            joined.complete(connection=own)
        with pytest.raises(tenure.ClaimLost), lost.transaction() as connection:
            connection.execute(effect, ["lost"])
            jobs.reap(worker=lost.job.worker)

        states = {job.id: job.state for job in jobs.find()}
    assert states == {"by the claim": "completed", "joined": "completed", "lost": "queued", "next": "queued"}
    assert place.execute("select job from S.effects order by job") == [("by the claim",), ("joined",)]
    assert left_in_the_sessions(any_pooler) == NOTHING
