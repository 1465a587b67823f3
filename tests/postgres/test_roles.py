"""The roles of `tenure sql roles` have their documented rights and no others."""

import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg import errors

from tenure.backends.postgres import PostgreSQL, roles
from tenure.backends.postgres.printable_sql import sql_at
from tenure.backends.protocol import Backend
from tenure.core.operations import Heartbeat, Move, Purge, Query
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_record, request, take_one
from tests.operations import NOT_REPEATED, REPEATED, stored
from tests.postgres.functions import Functions, functions_of, hold_of
from tests.postgres.logins import LoggedIn
from tests.postgres.operations import given
from tests.postgres.stores import Place
from tests.tiers import first_in_all_tiers

GUIDE = Path(__file__).parents[2] / "docs" / "postgres.md"

BY_FUNCTIONS = {
    "enqueue": "('t')",
    "enqueue_many": "('[]')",
    "store": "()",
    "claim": "('w')",
    "extend": "('i', 1, 't')",
    "settle": "('[]')",
    "complete": "('i', 1, 't')",
    "fail": "('i', 1, 't', 'e')",
    "reap": "()",
}


def test_the_guide_lists_exactly_the_rights_that_are_granted() -> None:
    (listed,) = re.findall(r"```sql\n(-- The roles.*?)```", GUIDE.read_text(), re.DOTALL)

    assert listed == roles.script("tenure").replace('"tenure"', "tenure")


def test_every_table_and_view_is_granted_to_somebody(place: Place, store: PostgreSQL) -> None:
    store.migrate()

    rows = place.execute(
        "select relname from pg_class where relnamespace = %s::regnamespace and relkind in ('r', 'v')", place.schema
    )

    assert {name for (name,) in rows} == {*roles.TABLES, *roles.READ_ONLY_RELATIONS}


def test_the_roles_may_be_made_again(place: Place, logged_in: LoggedIn) -> None:
    text = sql_at(place.url, place.url)["roles"]

    place.execute(text)

    assert logged_in("library").execute("select count(*) from S.jobs") == [(0,)]


def test_a_schema_whose_roles_would_have_too_long_names_is_refused() -> None:
    longest = "x" * 54

    with pytest.raises(ConfigurationError, match="use a name of at most 54 characters"):
        roles.script(f"{longest}y")

    assert f"{longest}_producer" in roles.script(longest)


@pytest.mark.parametrize("operation", first_in_all_tiers([*REPEATED, *NOT_REPEATED]))
def test_the_library_does_everything_with_the_rights_of_its_role(
    place: Place, logged_in: LoggedIn, operation: str
) -> None:
    clock = Clock()
    somebody = logged_in("library").open("&migrate=never", clock=clock)
    before = given(somebody, clock)

    {**REPEATED, **NOT_REPEATED}[operation](somebody, before)

    owner = place.open(clock=clock)
    assert stored(somebody) == stored(owner)
    somebody.close()
    owner.close()


def test_the_library_steers_and_looks_with_the_rights_of_its_role(logged_in: LoggedIn) -> None:
    somebody = logged_in("library").open("&migrate=never")
    somebody.enqueue([build_record(id="job"), build_record(id="other", delay=60)])

    somebody.beat(Heartbeat(name="w", host="h", pid=1, version="1"), ttl=60)
    somebody.pause(["other"])
    somebody.resume(["other"])
    somebody.wait(None, None, 0.0)
    somebody.settle([build_completion(take_one(somebody))])
    retried = somebody.move(["other"], Move.RETRY)
    purged = somebody.purge(Purge(older_than=0))

    standing = somebody.explain("other", None, None)
    assert standing is not None
    assert [worker.name for worker in somebody.workers()] == ["w"]
    assert [each.moved for each in retried] == [False]
    assert (purged, somebody.stats().total("scheduled")) == (1, 1)
    assert somebody.migrate().now == somebody.migrate().before
    somebody.beat(Heartbeat(name="w", host="h", pid=1, version="1"), ttl=0)
    somebody.close()


WRITING: dict[str, Callable[[Backend], object]] = {
    "enqueue": lambda store: store.enqueue([build_record()]),
    "claim": lambda store: store.claim(request()),
    "reap": lambda store: store.reap(),
    "move": lambda store: store.move(["job"], Move.CANCEL),
    "delete": lambda store: store.delete(["job"]),
    "purge": lambda store: store.purge(Purge(older_than=0)),
    "pause": lambda store: store.pause(["q"]),
    "beat": lambda store: store.beat(Heartbeat(name="w", host="h", pid=1, version="1"), ttl=9),
    "schedule": lambda store: store.schedule("daily", []),
}


def test_a_reader_looks_at_everything(store: PostgreSQL, logged_in: LoggedIn) -> None:
    store.enqueue([build_record(id="job")])
    store.beat(Heartbeat(name="w", host="h", pid=1, version="1"), ttl=60)
    reader = logged_in("reader").open()

    seen = reader.find(Query()), reader.stats(), reader.counts(60), reader.workers(), reader.explain("job", None, None)

    there = store.find(Query()), store.stats(), store.counts(60), store.workers(), store.explain("job", None, None)
    assert seen[:4] == there[:4]
    assert seen[4] is not None
    assert there[4] is not None
    assert seen[4].job == there[4].job
    reader.close()


@pytest.mark.parametrize("operation", first_in_all_tiers(WRITING))
def test_a_reader_that_writes_is_refused_with_where_the_rights_are_listed(logged_in: LoggedIn, operation: str) -> None:
    reader = logged_in("reader").open()

    with pytest.raises(ConfigurationError, match=r"the role lacks rights on .*: permission denied.*docs/postgres\.md"):
        WRITING[operation](reader)

    reader.close()


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("producer", {"enqueue", "enqueue_many", "store"}),
        ("worker", set(BY_FUNCTIONS)),
        ("reader", set[str]()),
        ("library", set(BY_FUNCTIONS)),
    ],
)
def test_a_role_calls_the_functions_that_are_its_own_and_no_other(
    logged_in: LoggedIn, role: str, allowed: set[str]
) -> None:
    somebody = logged_in(role)

    def refusal_of(name: str, arguments: str) -> str | None:
        try:
            somebody.execute(f"select * from S.{name}{arguments}")
        except errors.InsufficientPrivilege as exc:
            return str(exc)
        return None

    calls = {f"{name}{version}": text for name, text in BY_FUNCTIONS.items() for version in ("", "_v1")}
    refusals = {name: refusal_of(name, arguments) for name, arguments in calls.items()}

    assert {name for name, why in refusals.items() if why is None} == allowed | {f"{name}_v1" for name in allowed}
    assert [name for name, why in refusals.items() if why and f"permission denied for function {name}" not in why] == []


@pytest.mark.parametrize("role", ["producer", "worker"])
def test_who_has_only_functions_sees_and_changes_no_table(place: Place, logged_in: LoggedIn, role: str) -> None:
    somebody = logged_in(role)

    for name in (*roles.TABLES, *roles.READ_ONLY_RELATIONS):
        with pytest.raises(errors.InsufficientPrivilege, match=f"permission denied for (table|view) {name}"):
            somebody.execute(f"select from S.{name}")
    for name in roles.TABLES:
        with pytest.raises(errors.InsufficientPrivilege, match=f"permission denied for table {name}"):
            somebody.execute(f"delete from S.{name}")
    with pytest.raises(errors.InsufficientPrivilege, match="permission denied for sequence"):
        somebody.execute("select nextval('S.job_sequence')")
    with pytest.raises(errors.InsufficientPrivilege, match="permission denied for schema"):
        somebody.execute("create table S.mine (id integer)")
    inner = place.execute(
        """
        select oid::regprocedure::text from pg_proc
        where pronamespace = %s::regnamespace and not prosecdef and has_function_privilege(%s, oid, 'execute')
        """,
        place.schema,
        f"{place.schema}_{role}",
    )
    assert inner == []


@pytest.mark.parametrize("role", ["reader", "library"])
def test_who_does_not_migrate_changes_neither_version_nor_identity(logged_in: LoggedIn, role: str) -> None:
    somebody = logged_in(role)

    for table in ("versions", "store"):
        with pytest.raises(errors.InsufficientPrivilege, match=f"permission denied for table {table}"):
            somebody.execute(f"delete from S.{table}")


def test_a_worker_takes_a_job_through_with_nothing_but_functions(store: PostgreSQL, logged_in: LoggedIn) -> None:
    with functions_of(logged_in("producer")) as producer:
        producer.value("enqueue", "t", id="job", key="k")
    with functions_of(logged_in("worker")) as worker:
        (claim,) = worker.rows("claim", "w")
        held = worker.value("extend", **hold_of(claim))
        landed = worker.value("complete", **hold_of(claim))

    (job,) = store.find(Query()).jobs
    assert (held, landed, job.state, job.id) == ("held", True, "completed", "job")


ATTACKS = [
    "create function evil.statement_timestamp() returns timestamptz language sql as $$select 'epoch'::timestamptz$$",
    "create function evil.to_jsonb(text) returns jsonb language sql as $$select '\"stolen\"'::jsonb$$",
    "create function evil.format(text, text, text) returns text language sql as $$select 'stolen'$$",
    "create function evil.refused(text) returns text language sql as $$select 'let through'$$",
    "create function evil.jsonb_typeof(jsonb) returns text language sql as $$select 'object'$$",
    "create function evil.evil_equals(text, text) returns boolean language sql as 'select true'",
    "create operator evil.= (leftarg = text, rightarg = text, function = evil.evil_equals)",
    "create function evil.evil_equals(bigint, bigint) returns boolean language sql as 'select true'",
    "create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.evil_equals)",
    "create table evil.jobs (id text)",
    "create table evil.store (id text)",
    "create temporary table jobs (id text)",
    "create temporary table finished (id text)",
    "create temporary table pg_class (relname text)",
    "create type pg_temp.entry as (id integer)",
    "create type pg_temp.json as (id integer)",
    "create domain pg_temp.text as varchar(1)",
    "set search_path = evil, pg_temp, pg_catalog",
]


def test_what_a_caller_has_put_first_on_its_search_path_is_not_used(place: Place, logged_in: LoggedIn) -> None:
    schema = f"evil_{uuid4().hex}"
    somebody = logged_in("worker")
    place.execute(f"create schema {schema}")
    place.execute(f"grant all on schema {schema} to public")
    try:
        with functions_of(somebody) as sql:
            for attack in ATTACKS:
                sql.connection.execute(attack.replace("evil", schema).encode())

            answers = play_through(sql)

            with pytest.raises(errors.InvalidParameterValue):
                sql.value("enqueue", "")
    finally:
        place.execute(f"drop schema {schema} cascade")

    ((identity,),) = place.execute("select id from S.store")
    assert answers == {
        "store": identity,
        "enqueued": ("a", True),
        "claimed": [("a", "t", 1, {}), ("b", "t", 1, {})],
        "stale": ("lost", False),
        "held": ("held", True),
        "failed": True,
        "reaped": [],
    }


def play_through(sql: Functions) -> dict[str, object]:
    """Call every function, and return the results."""
    enqueued = sql.value("enqueue", "t", id="a"), sql.enqueue({"type": "t", "id": "b"})[0]["created"]
    first, second = sql.rows("claim", "w", max_jobs=2)
    stale = {**hold_of(first), "fence": 9}
    return {
        "store": sql.value("store"),
        "enqueued": enqueued,
        "claimed": [(claim["id"], claim["type"], claim["fence"], claim["payload"]) for claim in (first, second)],
        "stale": (sql.value("extend", **stale), sql.value("complete", **stale)),
        "held": (sql.value("extend", **hold_of(first)), sql.value("complete", **hold_of(first))),
        "failed": sql.value("fail", **hold_of(second), error="e", final=True),
        "reaped": sql.rows("reap"),
    }
