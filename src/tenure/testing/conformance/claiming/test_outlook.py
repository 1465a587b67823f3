"""The outlook of a job: the facts that decide when it is claimed."""

from tenure.backends.protocol import Claiming
from tenure.core.operations import ClaimOutlook, Move
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    ENDINGS,
    GivenJobs,
    build_endings,
    build_failure,
    build_release,
    build_snooze,
    job_of,
    settle,
    take,
    take_each,
    take_one,
)


def standing(store: Claiming, id: str) -> ClaimOutlook:
    found = store.explain(id, None, None)
    assert found is not None
    return found


def test_a_job_that_is_not_there_has_no_standing(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)

    assert store.explain("nobody", None, None) is None


def test_the_standing_shows_the_job_and_the_stores_moment(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    (id,) = given_jobs(1)
    clock.advance(5)

    assert standing(store, id) == ClaimOutlook(now=clock.now, job=job_of(store, id))


def test_the_jobs_enqueued_before_are_ahead(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(4)

    assert [standing(store, id).ahead for id in ids] == [0, 1, 2, 3]


def test_what_runs_is_not_ahead(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(3)
    take(store, limit=2)

    assert standing(store, ids[2]).ahead == 0


def test_what_ran_out_and_was_not_reaped_is_not_ahead(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    ids = given_jobs(2)
    take_one(store, lease=1)
    clock.advance(2)

    assert standing(store, ids[1]).ahead == 0


def test_what_was_cancelled_is_not_ahead(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(5)
    store.move(ids[1:4], Move.CANCEL)

    assert standing(store, ids[4]).ahead == 1


def test_nothing_is_ahead_of_a_job_that_is_not_due(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1 + len(ENDINGS))
    first, taken = take_one(store), take_each(store, ENDINGS)
    store.settle([build_release(first), *build_endings(taken).values()])

    ahead = {name: standing(store, each.id).ahead for name, each in taken.items()}

    assert ahead == {**dict.fromkeys(ENDINGS, 0), "release": 1}


def test_a_job_that_came_due_is_ahead_before_any_claim_let_it_in(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(2)
    first, second = take(store, limit=2)
    store.settle([build_snooze(first, 10), build_snooze(second, 20)])
    clock.advance(15)
    before = standing(store, second.id)
    clock.advance(5)
    after = standing(store, second.id)

    assert (before.ahead, after.ahead) == (0, 1)


def test_a_job_that_backs_off_is_not_ahead(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    ids = given_jobs(2)
    settle(store, build_failure(take_one(store)))
    clock.advance(9)

    assert standing(store, ids[1]).ahead == 0


def test_looking_at_a_job_changes_nothing(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(3)
    taken = take_one(store, lease=10)
    clock.advance(10)
    before = job_of(store, taken.id)
    standing(store, taken.id)

    assert job_of(store, taken.id) == before
    assert settle(store, ENDINGS["complete"](taken))


def test_a_worker_that_gave_no_sign_of_life_is_not_known(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store, worker="w1")

    found = standing(store, taken.id)

    assert (found.job.worker, found.holder) == ("w1", None)
