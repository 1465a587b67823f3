"""SQL functions beside an open transaction: they wait for it, and then see its outcome."""

from collections.abc import Iterator

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.core.job import State
from tenure.core.operations import Query
from tenure.testing.conformance.building import build_record, job_of
from tenure.testing.conformance.racing import RACE_TIMEOUT
from tests.postgres.functions import Functions, functions_of, hold_of
from tests.postgres.somebody import doing, started
from tests.postgres.stores import Place

TAKEN_OVER = "update S.jobs set fence = fence + 1, token = 'of another', worker = 'another' where id = 'job'"


@pytest.fixture
def sql(place: Place, store: PostgreSQL) -> Iterator[Functions]:
    store.migrate()
    with functions_of(place) as functions:
        yield functions


@pytest.mark.parametrize(
    "ending",
    [{"outcome": "completed"}, {"outcome": "failed", "error": "broken"}, {"outcome": "released"}],
    ids=lambda ending: ending["outcome"],
)
def test_a_settlement_that_waits_for_one_who_takes_the_job_over_is_lost(
    place: Place, store: PostgreSQL, sql: Functions, ending: dict[str, str]
) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")

    with doing(place, TAKEN_OVER):
        settling = started(place, lambda: sql.settle({**hold_of(claim), **ending}))

    assert settling.result(RACE_TIMEOUT) == [False]
    assert (job_of(store, "job").state, job_of(store, "job").history) == (State.RUNNING, ())


def test_an_extension_that_waits_for_one_who_takes_the_job_over_is_lost(
    place: Place, store: PostgreSQL, sql: Functions
) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")

    with doing(place, TAKEN_OVER):
        extending = started(place, lambda: sql.value("extend", **hold_of(claim), lease=3600))

    assert extending.result(RACE_TIMEOUT) == "lost"
    assert job_of(store, "job").leased_until == claim["leased_until"]


def test_an_extension_that_waits_for_one_who_asks_to_cancel_is_told_so(
    place: Place, store: PostgreSQL, sql: Functions
) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w")

    with doing(place, "update S.jobs set cancel_requested = true where id = 'job'"):
        extending = started(place, lambda: sql.value("extend", **hold_of(claim)))

    assert extending.result(RACE_TIMEOUT) == "cancel requested"


def test_a_key_that_somebody_takes_meanwhile_is_theirs(place: Place, store: PostgreSQL, sql: Functions) -> None:
    jobs = [{"type": "t", "id": "free", "key": "other"}, {"type": "t", "id": "second", "key": "k"}]

    with doing(place, "select S.enqueue('t', id => 'first', key => 'k')"):
        enqueueing = started(place, lambda: sql.enqueue(*jobs))

    rows = enqueueing.result(RACE_TIMEOUT)
    assert [(row["id"], row["created"]) for row in rows] == [("free", True), ("first", False)]
    assert {job.id for job in store.find(Query()).jobs} == {"first", "free"}


def test_a_key_that_somebody_takes_meanwhile_is_told_to_one_who_must_be_new(
    place: Place, store: PostgreSQL, sql: Functions
) -> None:
    jobs = [{"type": "t", "id": "free"}, {"type": "t", "id": "second", "key": "k", "on_conflict": "raise"}]

    with doing(place, "select S.enqueue('t', id => 'first', key => 'k')"):
        enqueueing = started(place, lambda: sql.enqueue(*jobs))

    rows = enqueueing.result(RACE_TIMEOUT)
    assert [(row["id"], row["created"], row["key_taken"]) for row in rows] == [
        ("free", False, False),
        ("first", False, True),
    ]
    assert [job.id for job in store.find(Query()).jobs] == ["first"]


def test_an_id_whose_job_is_completed_meanwhile_is_the_same_job(
    place: Place, store: PostgreSQL, sql: Functions
) -> None:
    store.enqueue([build_record(id="job")])
    (claim,) = sql.rows("claim", "w", token="t")

    with doing(place, f"select S.complete('job', {claim['fence']}, 't')"):
        enqueueing = started(place, lambda: sql.enqueue({"type": "t", "id": "job"}))

    (row,) = enqueueing.result(RACE_TIMEOUT)
    assert (row["id"], row["created"]) == ("job", False)
    assert [job.state for job in store.find(Query()).jobs] == [State.COMPLETED]
