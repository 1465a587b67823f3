"""The SQL functions do the same as the operations of the store, and reject the same values."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any
from unicodedata import category
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from tenure.backends.postgres import PostgreSQL, functions, migrations
from tenure.core.backoff import Backoff
from tenure.core.checks import LONGEST_ERROR, TRUNCATION_MARK, error_text
from tenure.core.job import Outcome, Progress, State
from tenure.core.operations import Move
from tenure.core.payload import MAX_DEPTH, MAX_JSON_BYTES
from tenure.testing.conformance.building import build_completion, build_record, job_of, settle, take, take_one
from tenure.testing.conformance.racing import run_concurrently
from tests.postgres.functions import Functions, functions_of, hold_of
from tests.postgres.stores import Place
from tests.postgres.test_refusals import database

DIGESTS = {2: "f778624a8c5220b5"}
"""Hashes of the SQL of the functions, for each schema version that changed them."""

CALLED = ("enqueue", "enqueue_many", "store", "claim", "extend", "settle", "complete", "fail", "reap")


@pytest.fixture
def sql(place: Place, store: PostgreSQL) -> Iterator[Functions]:
    """The functions of the store."""
    store.migrate()
    with functions_of(place) as functions:
        yield functions


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def test_the_functions_of_a_version_stay_as_they_are() -> None:
    version = migrations.current_version()

    digest = sha256(functions.script("tenure").encode()).hexdigest()[:16]

    assert DIGESTS.get(version) == digest, (
        f"the functions changed, so stores of schema {version} have older ones: while {version} is not released, write "
        f"{digest!r} to DIGESTS; after that, add a migration (it may be empty but for its comment) and a line for it"
    )


@pytest.mark.usefixtures("sql")
def test_every_function_has_a_version_and_a_plain_name(place: Place) -> None:
    there = {
        name
        for (name,) in place.execute("select proname from pg_proc where pronamespace = %s::regnamespace", place.schema)
    }

    assert sorted(functions.public_names()) == sorted(CALLED)
    assert {f"{name}_v1" for name in CALLED} | set(CALLED) <= there


def test_the_characters_that_a_name_may_not_have_are_those_of_python() -> None:
    refused = re.compile(f"[{functions.CONTROL_CHARACTERS}{functions.INVISIBLE_CHARACTERS}]")
    characters = [chr(number) for number in range(1, 0x110000)]
    invisible = [each for each in characters if category(each) in {"Cc", "Cf", "Co", "Zs", "Zl", "Zp"}]

    assert [each for each in characters if refused.match(each) and each.isprintable()] == []
    assert [each for each in invisible if not refused.match(each)] == [" "]


@pytest.mark.usefixtures("sql")
def test_nobody_may_call_a_function_to_whom_it_was_not_granted(place: Place) -> None:
    open_to_all = place.execute(
        """
        select proname from pg_proc
        where pronamespace = %s::regnamespace and has_function_privilege('public', oid, 'execute')
        """,
        place.schema,
    )

    assert open_to_all == []


@pytest.mark.usefixtures("sql")
def test_what_others_call_is_pinned_to_its_owner_and_search_path(place: Place) -> None:
    rows = place.execute(
        """
        select proname from pg_proc
        where
          pronamespace = %s::regnamespace and prosecdef
          and 'search_path=pg_catalog, pg_temp' = any (proconfig)
        """,
        place.schema,
    )

    assert {name for (name,) in rows} == {f"{name}_v1" for name in CALLED} | set(CALLED)


def test_a_store_has_one_identity_and_another_has_another(place: Place, sql: Functions) -> None:
    with pytest.raises(errors.UniqueViolation):
        place.execute("insert into S.store (id) values ('another')")

    assert sql.value("store") == sql.value("store_v1") == str(UUID(sql.value("store")))


def test_a_store_of_the_first_version_gets_its_functions(empty_place: Place) -> None:
    old = [(number, text) for number, text in migrations._pending_scripts(empty_place.schema, 0) if number == 1]
    empty_place.execute(f"create schema {empty_place.schema}")
    for number, text in old:
        empty_place.execute(text)
        empty_place.execute("insert into S.versions (version, works_from) values (%s, 1)", number)
    store = empty_place.open()
    store.enqueue([build_record(id="job")])

    with functions_of(empty_place) as sql:
        (claim,) = sql.rows("claim", "w")

    store.close()
    assert claim["id"] == "job"


def test_what_is_enqueued_by_name_is_there_for_python(store: PostgreSQL, sql: Functions) -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)

    id = sql.value(
        "enqueue",
        "send",
        '{"to":  "ada"}',
        queue="mail",
        priority=3,
        run_at=at,
        key="k",
        max_attempts=None,
        max_crashes=2,
        timeout=1.5,
        meta='{"trace": "1"}',
    )

    job = job_of(store, id)
    assert (job.type, job.payload, job.queue, job.priority, job.key) == ("send", {"to": "ada"}, "mail", 3, "k")
    assert (job.run_at, job.max_attempts, job.max_crashes, job.timeout) == (at, None, 2, 1.5)
    assert (job.meta, job.state) == ({"trace": "1"}, State.QUEUED)


def test_what_is_left_out_is_as_in_python(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record("send", id="python")])

    id = sql.value("enqueue", "send")

    made, python = job_of(store, id), job_of(store, "python")
    assert (made.payload, made.queue, made.priority, made.key) == ({}, python.queue, python.priority, None)
    assert (made.max_attempts, made.max_crashes, made.timeout) == (python.max_attempts, python.max_crashes, None)
    assert (made.meta, made.run_at) == ({}, made.created_at)


def test_an_id_that_is_made_is_a_uuid_of_the_moment(sql: Functions) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)

    id = UUID(sql.value("enqueue", "send"))

    moment = datetime.fromtimestamp((id.int >> 80) / 1000, UTC)
    assert (id.version, id.variant) == (7, "specified in RFC 4122")
    assert before < moment < before + timedelta(seconds=60)


def test_the_text_of_a_payload_is_kept_as_it_is(place: Place, sql: Functions) -> None:
    text = '{ "b": 1.0,\n "a": [1e2, "\\u00e9"], "B": 2 }'

    sql.enqueue({"type": "t", "payload": text})
    sql.rows("enqueue", "t", text)

    assert place.execute("select payload::text from S.jobs") == [(text,), (text,)]


def test_a_batch_is_answered_in_the_order_asked_whatever_is_stored(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="live"), build_record(id="finished", priority=1)])
    settle(store, build_completion(take_one(store)))

    rows = sql.enqueue(*({"type": "t", "id": id} for id in ("c", "live", "a", "finished", "b")))

    assert [(row["id"], row["created"]) for row in rows] == [
        ("c", True),
        ("live", False),
        ("a", True),
        ("finished", False),
        ("b", True),
    ]


def test_a_key_that_is_taken_is_answered_and_nothing_is_stored_if_one_says_raise(
    store: PostgreSQL, sql: Functions
) -> None:
    store.enqueue([build_record(id="holder", key="k")])

    kept = sql.enqueue({"type": "t", "id": "a", "key": "k"}, {"type": "t", "id": "b"})
    refused = sql.enqueue({"type": "t", "id": "c"}, {"type": "t", "id": "d", "key": "k", "on_conflict": "raise"})

    assert [(row["id"], row["created"], row["key_taken"]) for row in kept] == [
        ("holder", False, False),
        ("b", True, False),
    ]
    assert [(row["id"], row["created"], row["key_taken"]) for row in refused] == [
        ("c", False, False),
        ("holder", False, True),
    ]
    assert store.stats().total("due") == 2


def test_one_job_that_must_be_new_is_refused_with_its_holder(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="holder", key="k", queue="mail")])

    with pytest.raises(errors.UniqueViolation, match="key 'k' of queue 'mail' is taken by job 'holder'"):
        sql.value("enqueue", "t", key="k", queue="mail", on_conflict="raise")


def test_a_key_that_a_transaction_in_flight_takes_is_waited_for(place: Place, sql: Functions) -> None:
    with place.begun("select S.enqueue('t', id => 'first', key => 'k')") as first:
        sql.connection.execute("set lock_timeout = '50ms'")
        with pytest.raises(errors.LockNotAvailable):
            sql.enqueue({"type": "t", "id": "second", "key": "k"})
        first.rollback()

    (row,) = sql.enqueue({"type": "t", "id": "second", "key": "k"})

    assert (row["id"], row["created"]) == ("second", True)


def test_eight_who_store_the_same_keys_in_any_order_store_each_once(place: Place, store: PostgreSQL) -> None:
    store.migrate()
    jobs = [{"type": "t", "key": f"k{number}", "on_conflict": "keep"} for number in range(50)]

    def enqueue(seed: int) -> list[Any]:
        shuffled = Random(seed).sample(jobs, len(jobs))
        with functions_of(place) as sql:
            return [(row["id"], row["created"]) for _ in range(3) for row in sql.enqueue(*shuffled)]

    answers = [answer for part in run_concurrently([partial(enqueue, seed) for seed in range(8)]) for answer in part]

    assert sum(created for _, created in answers) == store.stats().total("due") == 50
    assert len({id for id, _ in answers}) == 50


def test_eight_who_claim_at_once_share_the_jobs(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record() for _ in range(200)])

    def claim() -> list[str]:
        with functions_of(place) as sql:
            return [row["id"] for _ in range(9) for row in sql.rows("claim", "w", max_jobs=4)]

    ids = [id for part in run_concurrently([claim] * 8) for id in part]

    assert len(ids) == len(set(ids)) == 200


def test_an_id_that_was_finished_behind_a_snapshot_is_not_stored_twice(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record(id="job")])
    with place.begun("set transaction isolation level repeatable read; select from S.store") as old:
        settle(store, build_completion(take_one(store)))

        with pytest.raises(errors.SerializationFailure):
            old.execute(f"select {place.schema}.enqueue('work', id => 'job')".encode())

    with place.begun("set transaction isolation level repeatable read; select S.enqueue('work', id => 'new')") as later:
        later.commit()
    assert [each.id for each in take(store, limit=9)] == ["new"]
    assert place.execute("select id from S.finished") == [("job",)]


@pytest.mark.parametrize(("queues", "types"), [(None, None), (["a"], None), (["a", "b", "a"], ["x"]), (None, ["x"])])
def test_a_claim_takes_what_python_would_take(
    store: PostgreSQL, sql: Functions, queues: list[str] | None, types: list[str] | None
) -> None:
    store.enqueue(
        [
            build_record(type, id=f"{queue}{type}{priority}", queue=queue, priority=priority)
            for priority in (1, 5)
            for queue in ("a", "b")
            for type in ("x", "y")
        ]
    )
    asked = [queue for queue in ("a", "b") if queues is None or queue in queues]
    wanted = [type for type in ("x", "y") if types is None or type in types]

    claims = sql.rows("claim", "w", queues, types, max_jobs=100)

    assert [claim["id"] for claim in claims] == [f"{q}{t}{p}" for p in (5, 1) for q in asked for t in wanted]
    assert {claim["fence"] for claim in claims} == {1}
    assert len({claim["token"] for claim in claims}) == 1


def test_a_claim_shows_the_job_and_its_lease(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record("send", id="job", payload={"to": "ada"}, timeout=2.5, meta={"a": "b"}, max_attempts=7)])

    (claim,) = sql.rows("claim", "w", lease=90)

    job = job_of(store, "job")
    assert (claim["type"], claim["payload"], claim["meta"], claim["timeout"]) == (
        "send",
        {"to": "ada"},
        {"a": "b"},
        2.5,
    )
    assert (claim["attempts"], claim["max_attempts"], claim["crashes"], claim["priority"]) == (1, 7, 0, 0)
    assert (claim["run_at"], claim["created_at"], claim["leased_until"]) == (
        job.run_at,
        job.created_at,
        job.leased_until,
    )
    assert job.started_at is not None
    assert claim["leased_until"] - job.started_at == timedelta(seconds=90)
    assert (job.worker, job.state) == ("w", State.RUNNING)


def test_a_token_that_is_sent_again_finds_what_it_still_holds(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="a"), build_record(id="b"), build_record(id="c")])
    first = sql.rows("claim", "w", max_jobs=2, token="t")
    sql.settle({**hold_of(first[0]), "outcome": "completed"})

    again = sql.rows("claim", "w", max_jobs=2, token="t")

    assert [(claim["id"], claim["fence"]) for claim in again] == [("b", 1)]
    assert job_of(store, "c").state is State.QUEUED


def test_a_claim_goes_on_behind_those_that_others_are_taking(place: Place, store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id=f"{number:03}") for number in range(100)])
    with place.begun("select from S.jobs where id < '090' for update"):
        claims = sql.rows("claim", "w", max_jobs=3)

    assert [claim["id"] for claim in claims] == ["090", "091", "092"]


def test_a_claim_takes_back_what_ran_out_and_promotes_what_came_due(
    place: Place, store: PostgreSQL, sql: Functions
) -> None:
    store.enqueue([build_record(id="expired"), build_record(id="scheduled", delay=3600)])
    take_one(store)
    place.execute("update S.jobs set leased_until = now() where id = 'expired'")
    place.execute("update S.jobs set run_at = now() where id = 'scheduled'")

    claims = sql.rows("claim", "w", max_jobs=9)

    assert [(claim["id"], claim["fence"], claim["crashes"]) for claim in claims] == [
        ("expired", 2, 1),
        ("scheduled", 1, 0),
    ]


def test_an_extension_is_for_its_holder_and_tells_of_a_cancel(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")
    hold = hold_of(claim)

    held = sql.value("extend", *hold.values(), lease=3600, progress='{"done": 1, "of": 3, "note": "so far"}')
    lost = sql.value("extend", "job", 2, claim["token"])
    store.move(["job"], Move.CANCEL)
    asked = sql.value("extend", **hold)

    job = job_of(store, "job")
    assert (held, lost, asked) == ("held", "lost", "cancel requested")
    assert job.progress == Progress(done=1, of=3, note="so far")
    assert job.leased_until is not None
    assert job.leased_until > claim["leased_until"] + timedelta(seconds=3000)


def test_a_completion_is_for_its_holder_and_may_be_sent_again(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")

    late = sql.value("complete", "job", 9, claim["token"], "1")
    first = sql.value("complete", **hold_of(claim), result='{"a": [1]}')
    again = sql.value("complete", **hold_of(claim), result="2")

    job = job_of(store, "job")
    assert (late, first, again) == (False, True, True)
    assert (job.state, job.result, job.worker) == (State.COMPLETED, {"a": [1]}, "w")
    assert [each.number for each in store.counts(60) if each.event == "refused"] == [1]


def test_a_result_that_is_too_long_is_dropped_and_marked(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="longest"), build_record(id="too long")])
    longest, too_long = sql.rows("claim", "w", max_jobs=2)

    landed = sql.settle(
        {**hold_of(longest), "outcome": "completed", "result": "x" * (MAX_JSON_BYTES - 2)},
        {**hold_of(too_long), "outcome": "completed", "result": "x" * (MAX_JSON_BYTES - 1)},
    )

    assert landed == [True, True]
    assert job_of(store, "longest").result == "x" * (MAX_JSON_BYTES - 2)
    assert (job_of(store, "too long").result, job_of(store, "too long").result_dropped) == (None, True)


def test_a_failure_waits_for_the_back_off_or_as_long_as_it_says(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue(
        [
            build_record(id="by itself"),
            build_record(id="as it says"),
            build_record(id="for good"),
            build_record(id="last", max_attempts=1),
        ]
    )
    by_itself, as_it_says, for_good, last = sql.rows("claim", "w", max_jobs=4)

    sql.value("fail", **hold_of(by_itself), error="broken")
    sql.value("fail", **hold_of(as_it_says), error="broken", delay=100)
    sql.value("fail", **hold_of(for_good), error="broken", final=True)
    sql.value("fail", **hold_of(last), error="broken")

    jobs = {id: job_of(store, id) for id in ("by itself", "as it says", "for good", "last")}
    waits = {id: job.run_at - job.history[0].ended_at for id, job in jobs.items()}
    assert timedelta(0) <= waits["by itself"] <= timedelta(seconds=Backoff().first)
    assert waits["as it says"] == timedelta(seconds=100)
    assert [jobs[id].state for id in jobs] == [State.QUEUED, State.QUEUED, State.FAILED, State.FAILED]
    assert {job.errors[0] for job in jobs.values()} == {"broken"}


def test_the_back_off_grows_to_its_cap(place: Place, store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id=f"{number}", max_attempts=None) for number in range(100)])
    claims = sql.rows("claim", "w", max_jobs=100)
    place.execute("update S.jobs set attempts = 100000")

    sql.settle(*({**hold_of(claim), "outcome": "retried"} for claim in claims))

    ((shortest, longest),) = place.execute("select min(run_at) - min(created_at), max(run_at) - now() from S.jobs")
    assert longest <= timedelta(seconds=Backoff().cap)
    assert longest > timedelta(seconds=Backoff().cap / 2)
    assert shortest < longest


def test_what_is_tried_again_with_no_attempt_left_has_failed(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="job", max_attempts=1)])
    (claim,) = sql.rows("claim", "w")
    retried = {**hold_of(claim), "outcome": "retried"}

    landed = [*sql.settle(retried), *sql.settle(retried)]

    job = job_of(store, "job")
    assert landed == [True, True]
    assert (job.state, job.history[0].outcome) == (State.FAILED, Outcome.FAILED)
    assert job.errors == ["retry requested, but attempt 1 was the last"]


@pytest.mark.parametrize("text", ["ä" * LONGEST_ERROR, "x" + "€" * LONGEST_ERROR, "short", "x" * LONGEST_ERROR])
def test_the_text_of_an_error_is_cut_as_python_cuts_it(store: PostgreSQL, sql: Functions, text: str) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")

    sql.value("fail", **hold_of(claim), error=text)

    (error,) = job_of(store, "job").errors
    assert error == error_text("error", text)
    assert error.startswith(TRUNCATION_MARK) == (len(text.encode()) > LONGEST_ERROR)


def test_one_call_settles_in_every_way_and_answers_in_the_order_asked(store: PostgreSQL, sql: Functions) -> None:
    outcomes = ["failed", "completed", "retried", "snoozed", "released", "cancelled"]
    store.enqueue([build_record(id=outcome) for outcome in outcomes])
    more: dict[str, dict[str, Any]] = {"failed": {"error": "broken"}, "snoozed": {"delay": 60}}
    claims = {claim["id"]: claim for claim in sql.rows("claim", "w", max_jobs=9)}
    asked = [{**hold_of(claims[each]), "outcome": each, **more.get(each, {})} for each in outcomes]
    asked.insert(2, {**asked[2], "id": "unknown"})

    rows = sql.rows("settle", json.dumps(asked))

    assert [(row["id"], row["landed"]) for row in rows] == [
        ("failed", True),
        ("completed", True),
        ("unknown", False),
        ("retried", True),
        ("snoozed", True),
        ("released", True),
        ("cancelled", True),
    ]
    states = [job_of(store, outcome).state for outcome in outcomes]
    assert states == ["queued", "completed", "queued", "queued", "queued", "cancelled"]
    assert [job_of(store, outcome).attempts for outcome in outcomes] == [1, 1, 1, 0, 0, 1]


def test_a_reap_takes_back_what_ran_out_and_nothing_else(place: Place, store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="expired"), build_record(id="held")])
    sql.rows("claim", "w", max_jobs=2)
    place.execute("update S.jobs set leased_until = now() where id = 'expired'")

    (row,) = sql.rows("reap")

    assert row == {"id": "expired", "state": "queued", "worker": "w", "fence": 1}
    assert job_of(store, "held").state is State.RUNNING


JOBS: list[tuple[Any, str]] = [
    ({}, "jobs must be a JSON array, not object"),
    ([1], "a job must be a JSON object, not 1"),
    ([{}], "type must be a string, not null"),
    ([{"type": "t", "queu": "q"}], "a job has no option 'queu'; the options are type, payload, queue"),
    ([{"type": 7}], "type must be a string, not 7"),
    ([{"type": ""}], "type must have 1 to 200 characters, not 0: ''"),
    ([{"type": "x" * 201}], "type must have 1 to 200 characters, not 201"),
    ([{"type": " t"}], "type must be printable text without space around it"),
    ([{"type": "a\nb"}], "type must be printable text"),
    ([{"type": "a\u200bb"}], "type must be printable text"),
    ([{"type": "a\U000e0041b"}], "type must be printable text"),
    ([{"type": "t", "queue": None}], "queue must be a string, not null"),
    ([{"type": "t", "key": "k\x7f"}], "key must be printable text"),
    ([{"type": "t", "id": ""}], "id must have 1 to 200 characters"),
    ([{"type": "t", "priority": 40000}], "priority must be -32768 to 32767, not 40000"),
    ([{"type": "t", "priority": 1.5}], "priority must be a whole number, not 1.5"),
    ([{"type": "t", "priority": "1"}], "priority must be a whole number, not '1'"),
    ([{"type": "t", "max_attempts": 0}], "max_attempts must be 1 to 1000000, not 0"),
    ([{"type": "t", "max_crashes": None}], "max_crashes must be a whole number, not null"),
    ([{"type": "t", "timeout": 0}], "timeout in seconds must be a number from 0.001 to 2592000, not 0"),
    ([{"type": "t", "delay": -1}], "delay in seconds must be a number from 0 to 3153600000, not -1"),
    ([{"type": "t", "delay": True}], "delay in seconds must be a number"),
    ([{"type": "t", "run_at": "tomorrow"}], "run_at must be a timestamp with time zone, such as"),
    ([{"type": "t", "run_at": "2026-01-31T12:00:00"}], "run_at must be a timestamp with time zone"),
    ([{"type": "t", "run_at": "2026-13-31T12:00:00Z"}], "run_at must be a timestamp with time zone"),
    ([{"type": "t", "run_at": "1969-12-31T12:00:00Z"}], "run_at must be from 1970-01-01T00:00:00Z to"),
    ([{"type": "t", "run_at": "2026-01-31T12:00:00Z", "delay": 1}], "pass run_at or delay, not both"),
    ([{"type": "t", "run_at": "now", "delay": "x" * 1000}], "delay='x{80}…'"),
    ([{"type": "t", "on_conflict": "replace"}], "on_conflict must be 'keep' or 'raise', not 'replace'"),
    ([{"type": "t", "payload": [1]}], r"the payload must be a JSON object, not \[1\]"),
    ([{"type": "t", "payload": None}], "the payload must be a JSON object, not null"),
    ([{"type": "t", "payload": "{"}], "payload is not JSON that every store accepts"),
    ([{"type": "t", "payload": {"a": "\0"}}], "a job is not JSON that every store accepts"),
    ([{"type": "t", "payload": '{"a": "\\u0000"}'}], "payload is not JSON that every store accepts"),
    ([{"type": "t", "payload": {"a": "\ud800"}}], "a job is not JSON that every store accepts"),
    ([{"type": "t", "payload": nested(MAX_DEPTH + 1)}], "payload is nested more than 100 deep"),
    ([{"type": "t", "payload": '{"a": 1e400}'}], "payload has a number too large for a double"),
    ([{"type": "t", "payload": '{"a": [-1e309]}'}], "payload has a number too large for a double"),
    ([{"type": "t", "payload": '{"a": 1e200000}'}], "payload is not JSON that every store accepts"),
    ([{"type": "t", "payload": '{"a": %s, "a": 1}' % ("[" * 3000 + "]" * 3000)}], "an object with a duplicate key"),
    (
        [{"type": "t", "payload": '{"a": [{"\\"b": %s, "\\u0022b": 1}]}' % ("1" * 5000)}],
        "an object with a duplicate key",
    ),
    (
        [{"type": "t", "payload": {"a": "x" * MAX_JSON_BYTES}}],
        "the payload has 262,?153 bytes of JSON; the limit is 262144",
    ),
    ([{"type": "t", "meta": [1]}], "meta must map strings to strings"),
    ([{"type": "t", "meta": {"a": 1}}], r"meta\['a'\] must be text, not 1"),
    ([{"type": "t", "meta": {" a": "b"}}], "meta label must be printable text"),
    ([{"type": "t", "meta": {"a": "x" * 16384}}], "meta has 16385 bytes; the limit is 16384"),
    ([{"type": "t"}] * 10_001, "jobs has 10001 entries; the limit is 10000"),
]


def complaint_about(call: Callable[[], object]) -> str:
    """Return the error of a rejected call, or an empty string."""
    try:
        call()
    except errors.InvalidParameterValue as exc:
        return str(exc)
    return ""


def test_a_job_that_cannot_be_used_is_refused_and_nothing_is_stored(store: PostgreSQL, sql: Functions) -> None:
    def enqueue(jobs: Any) -> None:
        asked = [{"type": "good"}, *jobs] if isinstance(jobs, list) and len(jobs) == 1 else jobs
        sql.rows("enqueue_many", json.dumps(asked))

    found = [(complaint_about(partial(enqueue, jobs)), complaint) for jobs, complaint in JOBS]

    assert [expected for said, expected in found if not re.search(expected, said)] == []
    assert store.stats().rows == ()


def test_what_is_just_within_the_limits_is_stored(store: PostgreSQL, sql: Functions) -> None:
    text = '{"a":"' + "x" * (MAX_JSON_BYTES - 8) + '"}'
    asked: list[dict[str, Any]] = [
        {"type": "x" * 200, "priority": -32768, "timeout": 0.001, "meta": {"a": "x" * 16383}},
        {"type": "ä b", "payload": text, "delay": 3153600000, "max_attempts": 1000000},
        {"type": "t", "payload": nested(MAX_DEPTH), "run_at": "2199-12-31T23:59:59+00:00"},
        {"type": "t", "payload": '{"a": 1.7e308}', "run_at": None, "key": None, "meta": None, "id": None},
    ]

    rows = sql.enqueue(*asked)

    assert [row["created"] for row in rows] == [True] * 4
    assert store.stats().total("due") + store.stats().total("scheduled") == 4


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("enqueue", {"type": None}, "type must be a string, not null"),
    ("enqueue", {"type": "t", "queue": ""}, "queue must have 1 to 200 characters"),
    ("enqueue", {"type": "t", "run_at": "infinity"}, "run_at must be a timestamp"),
    ("enqueue", {"type": "t", "delay": "NaN"}, "delay in seconds must be a number"),
    ("claim", {"worker": None}, "worker must be a string"),
    ("claim", {"worker": "w", "max_jobs": 0}, "max_jobs must be 1 to 1000, not 0"),
    ("claim", {"worker": "w", "max_jobs": 1001}, "max_jobs must be 1 to 1000, not 1001"),
    ("claim", {"worker": "w", "lease": 0.5}, "lease in seconds must be a number from 1 to 86400, not 0.5"),
    ("claim", {"worker": "w", "lease": None}, "lease in seconds must be a number"),
    ("claim", {"worker": "w", "queues": []}, "queues must name 1 to 1000, not 0; leave it out for all"),
    ("claim", {"worker": "w", "types": [None]}, "types must be a string, not null"),
    ("claim", {"worker": "w", "token": ""}, "token must have 1 to 200 characters"),
    ("extend", {"id": "i", "fence": 0, "token": "t"}, "fence must be 1 to 9223372036854775807, not 0"),
    ("extend", {"id": "i", "fence": 1, "token": None}, "token must be a string"),
    ("extend", {"id": "i", "fence": 1, "token": "t", "lease": 1e9}, "lease in seconds must be a number"),
    ("extend", {"id": "i", "fence": 1, "token": "t", "progress": "{}"}, "done must be a number from"),
    ("extend", {"id": "i", "fence": 1, "token": "t", "progress": '{"done": 1, "a": 2}'}, "progress has no option 'a'"),
    ("complete", {"id": None, "fence": 1, "token": "t"}, "id must be a string"),
    ("fail", {"id": "i", "fence": 1, "token": "t", "error": ""}, "error must be text"),
    ("fail", {"id": "i", "fence": 1, "token": "t", "error": "e", "delay": -1}, "delay in seconds must be"),
    ("reap", {"max_jobs": 0}, "max_jobs must be 1 to 1000, not 0"),
]


def test_a_call_that_cannot_be_used_is_refused(sql: Functions) -> None:
    found = [(complaint_about(partial(sql.rows, name, **options)), text) for name, options, text in CALLS]

    assert [expected for said, expected in found if not re.search(expected, said)] == []


SETTLEMENTS: list[tuple[dict[str, Any], str]] = [
    ({"outcome": "done"}, "outcome must be 'completed' or 'failed' or"),
    ({"outcome": "expired"}, "outcome must be"),
    ({"outcome": "completed", "error": "e"}, "a settlement with outcome 'completed' has no option 'error'"),
    ({"outcome": "released", "delay": 1}, "a settlement with outcome 'released' has no option 'delay'"),
    ({"outcome": "failed"}, "error must be text, not null"),
    ({"outcome": "failed", "error": "e", "final": "yes"}, "final must be true or false"),
    ({"outcome": "snoozed"}, "delay in seconds must be a number"),
    ({"outcome": "retried", "delay": "1"}, "delay in seconds must be a number"),
    ({"outcome": "cancelled", "error": 7}, "error must be text, not 7"),
    ({"outcome": "completed", "fence": "1"}, "fence must be a whole number, not '1'"),
    ({"outcome": "completed", "result": "\0"}, "a settlement is not JSON that every store accepts"),
]


def test_a_settlement_that_cannot_be_used_is_refused_with_all_others(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="job"), build_record(id="other")])
    job, other = sql.rows("claim", "w", max_jobs=2)

    def settle_both(settlement: dict[str, Any]) -> None:
        sql.settle({**hold_of(other), "outcome": "completed"}, {**hold_of(job), **settlement})

    found = [(complaint_about(partial(settle_both, each)), complaint) for each, complaint in SETTLEMENTS]

    assert [expected for said, expected in found if not re.search(expected, said)] == []
    assert store.stats().total("running") == 2


def test_a_result_whose_text_nobody_can_read_is_refused(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")

    with pytest.raises(errors.InvalidParameterValue, match="result has an object with a duplicate key"):
        sql.value("complete", *hold_of(claim).values(), '{"a": %s, "a": 1}' % ("1" * 5000))

    assert job_of(store, "job").state == "running"


def test_the_same_job_twice_in_one_call_is_refused(sql: Functions) -> None:
    settlement = {"id": "job", "fence": 1, "token": "t", "outcome": "released"}

    with pytest.raises(
        errors.InvalidParameterValue, match="settlements must name each job once, but job 'job' is named"
    ):
        sql.settle(settlement, {**settlement, "outcome": "completed"})


ODD = [
    "enable_indexscan=off",
    "enable_seqscan=on",
    "transform_null_equals=on",
    "array_nulls=off",
    "extra_float_digits=-15",
    "DateStyle=ISO,DMY",
    "TimeZone=Asia/Kathmandu",
    "IntervalStyle=sql_standard",
    "plan_cache_mode=force_custom_plan",
    "plpgsql.variable_conflict=use_variable",
]


def test_the_settings_of_a_session_do_not_matter(place: Place, store: PostgreSQL) -> None:
    store.migrate()
    with functions_of(place, ODD) as sql:
        sql.connection.execute("set standard_conforming_strings = off")

        id = sql.value("enqueue", "t", run_at="2026-01-31T12:00:00Z", timeout=0.1 + 0.2)
        (claim,) = sql.rows("claim", "w")
        failed = sql.settle({**hold_of(claim), "outcome": "failed", "error": "broken", "delay": 0})

    job = job_of(store, id)
    assert failed == [True]
    assert (job.timeout, job.attempts) == (0.1 + 0.2, 1)
    assert claim["run_at"] == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_the_collation_of_what_is_passed_does_not_matter(store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="job", queue="mail", type="send")])
    sql.connection.execute(
        """
        create temp table mine (
          id text collate "POSIX", worker text collate "POSIX", token text collate "POSIX",
          queues text[] collate "POSIX", types text[] collate "POSIX"
        )
        """
    )
    sql.connection.execute("insert into mine values ('job', 'w', 'token', '{mail}', '{send}')")
    claim_v1, extend_v1 = sql.named("claim_v1"), sql.named("extend_v1")

    taken = sql.connection.execute(
        f"select claimed.id, claimed.fence from mine, {claim_v1}(worker, queues, types, token => mine.token) as claimed"
    ).fetchone()
    held = sql.connection.execute(f"select {extend_v1}(id, 1, token) as answer from mine").fetchone()

    assert taken == {"id": "job", "fence": 1}
    assert held == {"answer": "held"}


def test_a_moment_of_a_zone_with_odd_seconds_is_taken(place: Place, store: PostgreSQL) -> None:
    store.migrate()
    with functions_of(place, ["TimeZone=Africa/Monrovia"]) as sql:
        id = sql.value("enqueue", "t", run_at="1971-01-01T00:00:00Z")

    assert job_of(store, id).run_at == datetime(1971, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "call",
    [
        "enqueue_v1(E't\\xff')",
        """enqueue_v1('t', cast(E'{"a": "\\xff"}' as json))""",
        "claim_v1(E'w\\xff')",
        "extend_v1('id', 1, E'\\xff')",
    ],
)
def test_bytes_that_are_no_text_are_refused_where_the_server_takes_them(place: Place, call: str) -> None:
    with database(place, "encoding 'SQL_ASCII' locale 'C' template template0") as elsewhere:
        store = elsewhere.open()
        store.migrate()
        store.close()

        with pytest.raises(errors.DataError, match='invalid byte sequence for encoding "UTF8": 0xff'):
            elsewhere.execute(f"select S.{call}")


def test_what_a_caller_undoes_did_not_happen(place: Place, store: PostgreSQL, sql: Functions) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")
    text = f"select {place.schema}.enqueue('t', id => 'new'), {place.schema}.complete('job', 1, '{claim['token']}')"

    with place.begun(text):
        pass

    assert job_of(store, "job").state is State.RUNNING
    assert [row.type for row in store.stats().rows] == ["work"]


def test_a_session_that_may_not_write_is_told_by_the_server(sql: Functions) -> None:
    sql.connection.execute("set default_transaction_read_only = on")

    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        sql.value("enqueue", "t")
