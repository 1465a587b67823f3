"""Operator actions concurrent with other operations on the same jobs."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.core.job import State
from tenure.core.operations import LARGEST_BATCH, Move, Moved, Purge, Refusal, Settlement
from tenure.testing.conformance.building import (
    Taken,
    build_cancellation,
    build_failure,
    build_record,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)
from tenure.testing.conformance.racing import RACE_TIMEOUT, run_concurrently
from tests.postgres.somebody import doing, enqueueing, started, wait_for_a_waiter
from tests.postgres.stores import Place

ENDED: Mapping[str, Callable[[Taken], Settlement]] = {
    "failed": partial(build_failure, final=True),
    "cancelled": build_cancellation,
}

LOCK_THE_OLDEST = {
    "failed": "select 1 from S.jobs order by sequence limit 1 for update",
    "cancelled": "select 1 from S.finished order by sequence limit 1 for update",
}

CLAIM = """
update S.jobs
set state = 'running', is_ready = false, fence = 1, attempts = 1, token = 't', worker = 'w', leased_until = now(),
  started_at = now()
where id = 'late'
"""


def ended(store: PostgreSQL, ending: str, **options: object) -> str:
    """Insert a job with this final state."""
    (each,) = store.enqueue([build_record(**options)])  # type: ignore[arg-type]
    settle(store, ENDED[ending](take_one(store)))
    return each.id


@pytest.mark.parametrize("ending", ENDED)
def test_a_job_whose_key_is_taken_while_it_is_retried_is_not_moved(
    place: Place, store: PostgreSQL, ending: str
) -> None:
    id = ended(store, ending, key="k")

    with enqueueing(store, build_record(key="k")):
        moving = started(place, lambda: store.move([id], Move.RETRY))

    assert moving.result(RACE_TIMEOUT) == [Moved(id=id, state=State(ending), refusal=Refusal.KEY_TAKEN)]
    assert job_of(store, id).state == ending


@pytest.mark.parametrize("ending", ENDED)
def test_of_ten_who_retry_one_job_one_moves_it(place: Place, store: PostgreSQL, ending: str) -> None:
    for _ in range(10):
        id = ended(store, ending)

        answers = run_concurrently([partial(store.move, [id], Move.RETRY)] * 10)

        assert sorted(str(each.refusal) for (each,) in answers) == sorted(["None"] + [Refusal.STATE] * 9)
        take(store)
        place.execute("delete from S.jobs")


def test_a_job_that_comes_and_is_claimed_while_others_are_locked_is_asked_to_cancel(
    place: Place, store: PostgreSQL
) -> None:
    store.enqueue([build_record(id="early")])
    with ExitStack() as claiming:
        with doing(place, LOCK_THE_OLDEST["failed"]):
            moving = started(place, lambda: store.move(["early", "late"], Move.CANCEL))
            store.enqueue([build_record(id="late")])
            claiming.enter_context(doing(place, CLAIM))
        wait_for_a_waiter(place)

    assert moving.result(RACE_TIMEOUT) == [
        Moved(id="early", state=State.CANCELLED),
        Moved(id="late", state=State.RUNNING),
    ]
    assert [len(job_of(store, id).history) for id in ("early", "late")] == [1, 1]


def test_a_job_named_twice_is_moved_once(store: PostgreSQL) -> None:
    store.enqueue([build_record(id="a"), build_record(id="b")])
    take_one(store)

    assert store.move(["b", "a", "b", "a"], Move.CANCEL) == [
        Moved(id="b", state=State.CANCELLED),
        Moved(id="a", state=State.RUNNING),
        Moved(id="b", state=State.CANCELLED, refusal=Refusal.STATE),
        Moved(id="a", state=State.RUNNING, refusal=Refusal.CANCEL_REQUESTED),
    ]
    assert store.move(["b", "b"], Move.RETRY) == [
        Moved(id="b", state=State.QUEUED),
        Moved(id="b", state=State.QUEUED, refusal=Refusal.STATE),
    ]


def test_a_job_named_twice_is_forgotten_once(store: PostgreSQL) -> None:
    id = ended(store, "failed")

    assert store.delete([id, id]) == [Moved(id=id, state=None), Moved(id=id, state=None, refusal=Refusal.UNKNOWN)]


@pytest.mark.parametrize("ending", ENDED)
def test_a_purge_does_not_wait_for_a_job_that_somebody_else_changes(
    place: Place, store: PostgreSQL, ending: str
) -> None:
    first, second = ended(store, ending), ended(store, ending)

    with doing(place, LOCK_THE_OLDEST[ending]):
        assert store.purge(Purge(older_than=0)) == 1

    assert store.delete([first, second]) == [
        Moved(id=first, state=None),
        Moved(id=second, state=None, refusal=Refusal.UNKNOWN),
    ]


def test_a_purge_takes_the_oldest_of_all_lines_and_their_history(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record(f"type-{n % 3}", queue=f"queue-{n % 2}", priority=-n) for n in range(12)])
    held = take(store, limit=12)
    for n, each in enumerate(held):
        settle(store, list(ENDED.values())[n % 2](each))

    assert store.purge(Purge(older_than=0, limit=5)) == 5

    left = {each.id for each in held[5:]}
    assert {id for (id,) in place.execute("select id from S.jobs union all select id from S.finished")} == left
    assert len(place.execute("select job from S.history")) == len(left)


def test_purges_at_the_same_time_forget_each_job_once(store: PostgreSQL) -> None:
    ids = [each.id for each in store.enqueue([build_record() for _ in range(LARGEST_BATCH)])]
    store.move(ids, Move.CANCEL)

    numbers = run_concurrently([lambda: store.purge(Purge(older_than=0))] * 4)

    assert sum(numbers) <= len(ids)
    assert sum(numbers) + store.purge(Purge(older_than=0)) == len(ids)
    assert ids_of(take(store)) == []
