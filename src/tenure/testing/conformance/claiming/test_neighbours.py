"""Requests are batched, outcomes are not: a bad member of a batch affects only itself."""

from dataclasses import replace

import pytest

from tenure.backends.protocol import Claiming
from tenure.core.job import State
from tenure.core.operations import Extension, Hold, HoldStatus, Move, Query
from tenure.core.payload import encode_result
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    FEWEST_DIGITS,
    GivenJobs,
    build_completion,
    build_failure,
    build_snooze,
    job_of,
    limit_of_digits,
    take,
    take_one,
)

UNKNOWN = Hold(id="4711", fence=1, token="unknown")
LONG = 10**FEWEST_DIGITS
IMPOSSIBLE = Hold(id="no key of any table", fence=1, token="unknown")


def test_lost_and_unknown_members_of_a_batch_cost_the_other_settlements_nothing(
    store: Claiming, given_jobs: GivenJobs
) -> None:
    given_jobs(4)
    first, second, third, fourth = take(store, limit=4)
    stale = replace(second.hold, fence=second.hold.fence + 1)

    settled = store.settle(
        [
            build_completion(first),
            replace(build_completion(second), hold=stale),
            replace(build_completion(second), hold=UNKNOWN),
            build_failure(third, final=True),
            replace(build_failure(third), hold=IMPOSSIBLE),
            build_snooze(fourth),
        ]
    )

    assert settled == [True, False, False, True, False, True]
    states = [job_of(store, each.id).state for each in (first, second, third, fourth)]
    assert states == [State.COMPLETED, State.RUNNING, State.FAILED, State.QUEUED]


def test_lost_and_unknown_members_of_a_batch_cost_the_other_leases_nothing(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(2)
    first, second = take(store, limit=2, lease=10)
    clock.advance(5)
    holds = [UNKNOWN, first.hold, replace(second.hold, token="stale"), IMPOSSIBLE, second.hold]

    statuses = store.extend([Extension(hold=hold, lease=60) for hold in holds])

    lost, held = HoldStatus.LOST, HoldStatus.HELD
    assert statuses == [lost, held, lost, lost, held]


def test_a_cancel_request_of_one_job_leaves_the_outcomes_of_its_batch_as_they_are(
    store: Claiming, given_jobs: GivenJobs
) -> None:
    given_jobs(3)
    taken = take(store, limit=3)
    store.move([taken[1].id], Move.CANCEL)

    settled = store.settle([build_snooze(each) for each in taken])

    assert settled == [True, True, True]
    assert [job_of(store, each.id).state for each in taken] == [State.QUEUED, State.CANCELLED, State.QUEUED]


def test_expired_jobs_are_reaped_beside_a_live_one(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(3)
    live = take_one(store, lease=60)
    take(store, limit=2, lease=1)
    clock.advance(2)

    reaped = store.reap()

    assert [each.state for each in reaped] == [State.QUEUED, State.QUEUED]
    assert job_of(store, live.id).state is State.RUNNING


@pytest.mark.parametrize("result", [{"n": LONG}, [1, [LONG]], LONG], ids=["object", "list", "number"])
def test_a_result_that_python_cannot_read_is_found_as_text_beside_its_neighbours(
    store: Claiming, given_jobs: GivenJobs, result: object
) -> None:
    given_jobs(2)
    first, second = take(store, limit=2)
    store.settle([build_completion(first, result), build_completion(second, [1, {}])])

    with limit_of_digits(FEWEST_DIGITS):
        found = {each.id: each.result for each in store.find(Query()).jobs}

    assert found == {first.id: encode_result(result), second.id: [1, {}]}
