"""Claims made by hand."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tenure
from tenure.core.operations import HoldStatus
from tenure.core.transitions import build_release
from tenure.errors import StoreUnavailable
from tenure.testing import Clock, Harness
from tenure.testing.conformance.racing import run_concurrently

BACKOFF = tenure.Backoff(first=8)


class Flaky:
    """A store that a test can make unavailable."""

    is_away = fails_once = loses_one_answer = False

    def settle(self, settlements: Any) -> list[bool]:
        self._answer()
        answer: list[bool] = super().settle(settlements)  # type: ignore[misc]
        if self.loses_one_answer:
            self.loses_one_answer = False
            raise StoreUnavailable("answer lost")
        return answer

    def extend(self, extensions: Any) -> list[HoldStatus]:
        self._answer()
        answer: list[HoldStatus] = super().extend(extensions)  # type: ignore[misc]
        return answer

    def _answer(self) -> None:
        if self.is_away or self.fails_once:
            self.fails_once = False
            raise StoreUnavailable("gone")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(harness: Harness, clock: Clock) -> Any:
    store = harness.open(clock)
    store.__class__ = type("FlakyStore", (Flaky, type(store)), {})
    return store


@pytest.fixture
def jobs(store: Any) -> tenure.Jobs:
    return tenure.Jobs(store, backoff=BACKOFF)


def claim_one(jobs: tenure.Jobs, **options: Any) -> tenure.Claim:
    jobs.enqueue("work", **options)
    (claim,) = jobs.claim()
    return claim


def steal(store: Any, claim: tenure.Claim) -> None:
    """Reap the job; claim the job for a second worker."""
    store.reap(worker=claim.job.worker)
    tenure.Jobs(store).claim(worker="thief", limit=9)


def kept(jobs: tenure.Jobs) -> int:
    """Return how many leases the keeper extends."""
    return len(jobs._open()[1].keeper._kept)


def state_of(jobs: tenure.Jobs, claim: tenure.Claim) -> tenure.State:
    job = jobs.get(claim.id)
    assert job is not None
    return job.state


def history_of(jobs: tenure.Jobs, claim: tenure.Claim) -> list[tenure.Outcome]:
    job = jobs.get(claim.id)
    assert job is not None
    return [ending.outcome for ending in job.history]


VERBS: dict[str, tuple[Callable[[tenure.Claim], None], tenure.State, list[str]]] = {
    "complete": (lambda claim: claim.complete({"n": 1}), tenure.State.COMPLETED, []),
    "fail": (lambda claim: claim.fail("why"), tenure.State.QUEUED, ["failed"]),
    "fail for good": (lambda claim: claim.fail(ValueError("why"), final=True), tenure.State.FAILED, ["failed"]),
    "retry": (lambda claim: claim.retry(delay=30), tenure.State.QUEUED, ["retried"]),
    "snooze": (lambda claim: claim.snooze(60), tenure.State.QUEUED, ["snoozed"]),
    "release": (lambda claim: claim.release(), tenure.State.QUEUED, ["released"]),
    "cancel": (lambda claim: claim.cancel("why"), tenure.State.CANCELLED, ["cancelled"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_ends_the_claim(jobs: tenure.Jobs, verb: str) -> None:
    act, state, history = VERBS[verb]
    claim = claim_one(jobs)

    act(claim)

    assert claim.is_settled
    assert state_of(jobs, claim) is state
    assert history_of(jobs, claim) == history


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_a_lost_claim_raises_and_changes_nothing(jobs: tenure.Jobs, store: Any, verb: str) -> None:
    act, _, _ = VERBS[verb]
    claim = claim_one(jobs)
    steal(store, claim)
    before = jobs.get(claim.id)

    with pytest.raises(tenure.ClaimLost, match="nothing was written") as caught:
        act(claim)

    assert (caught.value.id, caught.value.fence) == (claim.id, 1)
    assert claim.is_lost
    assert jobs.get(claim.id) == before


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_ends_a_claim_twice(jobs: tenure.Jobs, verb: str) -> None:
    act, _, _ = VERBS[verb]
    claim = claim_one(jobs)
    claim.complete()

    with pytest.raises(tenure.ClaimLost, match="the job is already completed"):
        act(claim)


@pytest.mark.parametrize("act", [lambda claim: claim.extend(120), lambda claim: claim.progress(1, of=2)])
def test_extending_a_lost_claim_raises(jobs: tenure.Jobs, store: Any, act: Callable[[tenure.Claim], None]) -> None:
    claim = claim_one(jobs)
    steal(store, claim)

    with pytest.raises(tenure.ClaimLost):
        act(claim)

    assert claim.is_lost


def test_a_claim_is_extended_and_shows_its_progress(jobs: tenure.Jobs, clock: Clock) -> None:
    claim = claim_one(jobs)
    clock.advance(30)

    claim.extend()
    claim.progress(3, of=10, note="three")

    job = jobs.get(claim.id)
    assert job is not None
    assert job.progress == tenure.Progress(done=3, of=10, note="three")
    assert job.leased_until is not None
    assert (job.leased_until - clock.now).total_seconds() == 60


def test_a_claim_is_extended_for_longer(jobs: tenure.Jobs, clock: Clock) -> None:
    claim = claim_one(jobs)

    claim.extend(600)

    job = jobs.get(claim.id)
    assert job is not None
    assert job.leased_until is not None
    assert (job.leased_until - clock.now).total_seconds() == 600


def test_a_claim_learns_that_cancelling_was_asked_for(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)
    jobs.cancel(claim.id)
    before = claim.cancel_requested
    claim.extend()

    assert (before, claim.cancel_requested) == (False, True)


def test_wrong_values_are_refused_and_the_claim_stays(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)

    with pytest.raises(tenure.ConfigurationError, match="delay must be"):
        claim.snooze(-1)
    with pytest.raises(tenure.ConfigurationError, match="delay must be"):
        claim.retry(delay="soon")  # type: ignore[arg-type]
    with pytest.raises(tenure.ConfigurationError, match="lease must be"):
        claim.extend(0)
    with pytest.raises(tenure.ConfigurationError, match="fail has no option 'finl'; did you mean 'final'"):
        claim.fail("why", finl=True)  # type: ignore[call-arg]
    with pytest.raises(tenure.ConfigurationError, match="the reason must be text, not 7"):
        claim.fail(7)  # type: ignore[arg-type]
    with pytest.raises(tenure.ConfigurationError, match="cancel has no option 'reason'"):
        claim.cancel(reason="x")  # type: ignore[call-arg]
    with pytest.raises(tenure.ConfigurationError, match="final must be True or False, not 'no'"):
        claim.fail("why", final="no")  # type: ignore[arg-type]
    with pytest.raises(tenure.ConfigurationError, match="done must be a number"):
        claim.progress("half")  # type: ignore[arg-type]
    with pytest.raises(tenure.InvalidPayload, match="the result is not JSON"):
        claim.complete(object())

    assert state_of(jobs, claim) is tenure.State.RUNNING
    claim.complete("fine")


def test_leaving_a_block_completes_with_its_result(jobs: tenure.Jobs) -> None:
    with claim_one(jobs) as claim:
        claim.result = {"sent": True}

    job = jobs.get(claim.id)
    assert job is not None
    assert (job.state, job.result) == (tenure.State.COMPLETED, {"sent": True})


def test_an_exception_is_recorded_with_its_traceback_and_goes_on(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)

    with pytest.raises(ZeroDivisionError), claim:
        1 / 0  # noqa: B018

    job = jobs.get(claim.id)
    assert job is not None
    assert job.state is tenure.State.QUEUED
    assert job.errors[0].startswith("Traceback")
    assert job.errors[0].rstrip().endswith("ZeroDivisionError: division by zero")


def test_an_exception_in_the_last_attempt_fails_the_job(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs, max_attempts=1)

    with pytest.raises(ZeroDivisionError), claim:
        1 / 0  # noqa: B018

    assert state_of(jobs, claim) is tenure.State.FAILED


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_an_interruption_releases_the_job_and_goes_on(jobs: tenure.Jobs, interruption: type[BaseException]) -> None:
    claim = claim_one(jobs)

    with pytest.raises(interruption), claim:
        raise interruption

    job = jobs.get(claim.id)
    assert job is not None
    assert (job.state, job.attempts, job.errors) == (tenure.State.QUEUED, 0, [])


ANSWERS = {
    "retry": (tenure.Retry(delay=5), tenure.State.QUEUED, "retried"),
    "snooze": (tenure.Snooze(60), tenure.State.QUEUED, "snoozed"),
    "fail": (tenure.Fail("why"), tenure.State.FAILED, "failed"),
    "cancel": (tenure.Cancel("why"), tenure.State.CANCELLED, "cancelled"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_raised_in_a_block_settles_and_ends_there(jobs: tenure.Jobs, name: str) -> None:
    answer, state, outcome = ANSWERS[name]

    with claim_one(jobs) as claim:
        raise answer

    assert state_of(jobs, claim) is state
    assert history_of(jobs, claim) == [outcome]


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_given_as_the_result_settles_the_same(jobs: tenure.Jobs, name: str) -> None:
    answer, state, outcome = ANSWERS[name]

    with claim_one(jobs) as claim:
        claim.result = answer

    assert state_of(jobs, claim) is state
    assert history_of(jobs, claim) == [outcome]


def test_after_an_explicit_ending_leaving_does_nothing_more(jobs: tenure.Jobs) -> None:
    with claim_one(jobs) as claim:
        claim.snooze(60)

    assert history_of(jobs, claim) == ["snoozed"]


def test_an_exception_after_an_explicit_ending_goes_on_and_changes_nothing(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)

    with pytest.raises(ZeroDivisionError), claim:
        claim.complete()
        1 / 0  # noqa: B018

    assert state_of(jobs, claim) is tenure.State.COMPLETED


def test_a_block_that_was_fenced_out_raises_and_writes_nothing(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)

    with pytest.raises(tenure.ClaimLost), claim:
        steal(store, claim)
        claim.result = "late"
    job = jobs.get(claim.id)

    assert job is not None
    assert (job.state, job.fence, job.result) == (tenure.State.RUNNING, 2, None)


def test_a_loss_noticed_within_the_block_is_not_recorded_as_a_failure(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)

    with pytest.raises(tenure.ClaimLost), claim:
        steal(store, claim)
        claim.progress(1)

    assert history_of(jobs, claim) == ["expired"]


def test_an_exception_that_could_not_be_recorded_goes_on_and_says_so(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)

    with pytest.raises(ZeroDivisionError) as caught, claim:
        store.is_away = True
        1 / 0  # noqa: B018

    assert caught.value.__notes__ == ["tenure: could not record this error on the job: gone"]


def test_an_exception_of_a_lost_claim_goes_on_and_says_so(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)

    with pytest.raises(ZeroDivisionError) as caught, claim:
        steal(store, claim)
        1 / 0  # noqa: B018

    assert "nothing was written" in caught.value.__notes__[0]


def test_a_completion_that_was_not_answered_may_be_sent_again(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        claim.complete("done")
    store.is_away = False

    claim.complete("done")

    assert state_of(jobs, claim) is tenure.State.COMPLETED


def test_a_result_that_cannot_be_kept_does_not_make_the_work_be_repeated(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)

    with pytest.raises(tenure.InvalidPayload, match="is completed, but the result is not JSON"), claim:
        claim.result = object()

    job = jobs.get(claim.id)
    assert job is not None
    assert (job.state, job.result, job.result_dropped) == (tenure.State.COMPLETED, None, True)


def test_a_settled_claim_cannot_be_entered(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)
    claim.complete()

    with pytest.raises(tenure.ClaimLost, match="the job was completed before the block was entered"), claim:
        raise AssertionError


def test_a_claim_whose_lease_ran_out_cannot_be_entered(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)
    claim.lease.valid_until = 0.0

    with pytest.raises(tenure.ClaimLost, match="the lease expired before the block was entered"), claim:
        raise AssertionError


def test_leaving_the_claims_releases_the_unsettled(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(3))

    with jobs.claim(limit=3) as claims:
        claims[1].complete()

    assert [claim.is_settled for claim in claims] == [True, True, True]
    assert jobs.stats().total("completed") == 1
    assert [job.attempts for job in jobs.find(state="queued")] == [0, 0]


def test_a_failing_job_in_a_batch_costs_its_neighbours_nothing(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}) for n in range(4))

    with jobs.claim(limit=4) as claims, pytest.raises(ZeroDivisionError):
        for claim in claims:
            with claim:
                claim.result = 1 / (claim.job.payload["n"] - 1)

    found = {job.payload["n"]: (job.state, job.attempts) for job in jobs.find()}
    assert found[0] == (tenure.State.COMPLETED, 1)
    assert found[1] == (tenure.State.QUEUED, 1)
    assert found[2] == found[3] == (tenure.State.QUEUED, 0)


def outcomes(jobs: tenure.Jobs) -> dict[int, tuple[str, int, int]]:
    """Return state, attempts and number of errors of each job, by job number."""
    return {job.payload["n"]: (str(job.state), job.attempts, len(job.errors)) for job in jobs.find()}


@pytest.fixture
def three(jobs: tenure.Jobs) -> tenure.Claims:
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}) for n in range(3))
    return jobs.claim(limit=3)


def test_an_exception_is_recorded_on_the_claim_that_the_loop_is_at(jobs: tenure.Jobs, three: tenure.Claims) -> None:
    with pytest.raises(ZeroDivisionError), three as claims:
        for claim in claims:
            claim.complete(1 / (1 - claim.job.payload["n"]))

    assert outcomes(jobs) == {0: ("completed", 1, 0), 1: ("queued", 1, 1), 2: ("queued", 0, 0)}


def test_a_claim_that_was_passed_over_is_not_blamed(jobs: tenure.Jobs, three: tenure.Claims) -> None:
    with pytest.raises(ZeroDivisionError), three as claims:
        for claim in claims:
            if claim.job.payload["n"] == 1:
                1 / 0  # noqa: B018

    assert outcomes(jobs) == {0: ("queued", 0, 0), 1: ("queued", 1, 1), 2: ("queued", 0, 0)}


def test_what_was_never_worked_on_is_not_blamed_for_a_lost_neighbour(
    jobs: tenure.Jobs, store: Any, three: tenure.Claims
) -> None:
    with pytest.raises(tenure.ClaimLost), three as claims:
        for claim in claims:
            with claim:
                store.settle([build_release(claim.lease.hold)])
                tenure.Jobs(store).claim(worker="thief")

    assert outcomes(jobs) == {0: ("running", 1, 0), 1: ("queued", 0, 0), 2: ("queued", 0, 0)}


def test_what_was_never_worked_on_is_not_blamed_for_an_error_that_was_changed_on_its_way(
    jobs: tenure.Jobs, three: tenure.Claims
) -> None:
    with pytest.raises(RuntimeError), three as claims:
        for claim in claims:
            try:
                with claim:
                    1 / 0  # noqa: B018
            except ZeroDivisionError as exc:
                raise RuntimeError from exc

    assert outcomes(jobs) == {0: ("queued", 1, 1), 1: ("queued", 0, 0), 2: ("queued", 0, 0)}


def test_nobody_is_blamed_for_an_exception_outside_of_the_loop(jobs: tenure.Jobs, three: tenure.Claims) -> None:
    with pytest.raises(ZeroDivisionError), three as claims:
        for _ in claims:
            pass
        1 / 0  # noqa: B018

    assert {attempts for _, attempts, _ in outcomes(jobs).values()} == {0}


def test_claims_taken_out_of_the_list_are_released_and_kept_no_more(jobs: tenure.Jobs, three: tenure.Claims) -> None:
    with three as claims:
        while claims:
            claims.pop()

    assert jobs.stats().total("due") == 3
    assert kept(jobs) == 0


def test_an_ending_that_was_not_answered_is_sent_again_and_no_other(jobs: tenure.Jobs, store: Any) -> None:
    jobs.enqueue("work", max_attempts=1)

    with pytest.raises(StoreUnavailable) as caught, jobs.claim() as claims:
        for claim in claims:
            with claim:
                claim.result = "done"
                store.is_away = True
        raise AssertionError
    store.is_away = False

    assert claims[0].unconfirmed is not None
    assert "could not release" in caught.value.__notes__[-1]
    assert jobs.stats().total("running") == 1


def test_an_ending_that_was_not_answered_lands_when_the_block_is_left(jobs: tenure.Jobs, store: Any) -> None:
    jobs.enqueue("work", max_attempts=1)
    store.fails_once = True

    with pytest.raises(StoreUnavailable), jobs.claim() as claims:
        claims[0].complete("done")

    assert [(job.state, job.result) for job in jobs.find()] == [(tenure.State.COMPLETED, "done")]


def test_an_ending_that_was_not_answered_lands_when_its_own_block_is_left(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs, max_attempts=1)
    store.fails_once = True

    with pytest.raises(StoreUnavailable), claim:
        claim.complete("done")

    assert state_of(jobs, claim) is tenure.State.COMPLETED


def test_another_ending_after_one_that_landed_unanswered_is_told_so(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)
    store.loses_one_answer = True
    with pytest.raises(StoreUnavailable):
        claim.complete("done")

    with pytest.raises(tenure.ClaimLost, match="or an earlier settlement without a response was recorded"):
        claim.fail("why")


def test_no_lease_is_kept_after_its_claim_ended_or_its_block_was_left(jobs: tenure.Jobs, store: Any) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(4))
    numbers = []
    with jobs.claim(limit=4) as claims:
        numbers.append(kept(jobs))
        claims[0].complete()
        numbers.append(kept(jobs))
        with claims[1]:
            numbers.append(kept(jobs))
        numbers.append(kept(jobs))
        store.reap(worker=claims[2].job.worker)
        with pytest.raises(tenure.ClaimLost):
            claims[2].extend()
        numbers.append(kept(jobs))

    assert [*numbers, kept(jobs)] == [4, 3, 3, 2, 1, 0]


def test_a_claim_that_is_extended_by_hand_after_a_gap_is_kept_again(jobs: tenure.Jobs) -> None:
    with jobs.claim() as none, claim_one(jobs) as claim:
        claim.lease.valid_until = 0.0
        jobs._open()[1].keeper.extend_due()
        given_up = kept(jobs)
        claim.extend()
        again = kept(jobs)

    assert (none, given_up, again) == ([], 0, 1)


def test_a_forked_child_gives_back_nothing_of_its_parents(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(2))
    (first,), rest = jobs.claim(), jobs.claim()
    first.__enter__()
    rest.__enter__()
    # As in a forked child: another process made the claim.
    for claim in (first, *rest):
        claim._process = -1
    first.__exit__(None, None, None)
    rest.__exit__(SystemExit, SystemExit(), None)
    with pytest.raises(tenure.ClaimLost, match="process -1 holds it"):
        first.complete()

    assert jobs.stats().total("running") == 2


@pytest.mark.parametrize("answer", [tenure.Retry, tenure.Snooze])
def test_the_class_of_an_answer_is_told_from_an_answer(jobs: tenure.Jobs, answer: type) -> None:
    claim = claim_one(jobs)

    with pytest.raises(tenure.ConfigurationError, match=r"use an instance, such as tenure\.Retry"), claim:
        claim.result = answer

    assert history_of(jobs, claim) == ["failed"]


def test_an_exception_without_an_inner_block_cannot_go_on_for_ever(jobs: tenure.Jobs, clock: Clock) -> None:
    jobs.enqueue("work", max_attempts=3)
    runs = 0
    while claims := jobs.claim():
        runs += 1
        with pytest.raises(ZeroDivisionError), claims:
            1 / 0  # noqa: B018
        clock.advance(3600)

    assert runs == 3
    assert jobs.stats().total("failed") == 1


def test_an_interruption_of_the_claims_releases_them_all(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(2))

    with pytest.raises(KeyboardInterrupt), jobs.claim(limit=2):
        raise KeyboardInterrupt

    assert [job.attempts for job in jobs.find(state="queued")] == [0, 0]


def test_a_result_without_a_block_is_told(jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture) -> None:
    jobs.enqueue("work", id="a7")

    with jobs.claim() as claims:
        claims[0].result = 7

    told = [record.message for record in caplog.records if record.name == "tenure.client.claims"]
    assert told == ["job a7 released although a result is set: use `with claim:` to complete the job"]


def test_the_loss_of_another_claim_is_recorded_as_a_failure_of_this_one(jobs: tenure.Jobs, store: Any) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(2))
    (other,), (mine,) = jobs.claim(worker="w1"), jobs.claim(worker="w2")
    steal(store, other)

    with pytest.raises(tenure.ClaimLost), mine:
        other.complete()

    assert history_of(jobs, mine) == ["failed"]


def test_a_misspelt_attribute_is_refused(jobs: tenure.Jobs) -> None:
    with pytest.raises(AttributeError, match="reslt"):
        claim_one(jobs).reslt = 5  # type: ignore[attr-defined]


def test_an_ended_claim_says_how_it_ended_when_it_is_extended(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)
    claim.complete()

    with pytest.raises(tenure.ClaimLost, match="the job is already completed"):
        claim.progress(1)


def test_a_claim_of_a_closed_jobs_cannot_be_entered(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs)
    jobs.close()

    with pytest.raises(StoreUnavailable, match="the Jobs of this claim is closed"), claim:
        raise AssertionError


def test_leaving_claims_of_which_some_are_lost_is_no_error(jobs: tenure.Jobs, store: Any) -> None:
    jobs.enqueue("work")

    with jobs.claim() as claims:
        steal(store, claims[0])

    assert (claims[0].is_lost, claims[0].is_settled) == (True, False)
    assert jobs.stats().total("running") == 1


def test_claims_that_could_not_be_released_say_so(jobs: tenure.Jobs, store: Any) -> None:
    jobs.enqueue("work")

    with pytest.raises(StoreUnavailable), jobs.claim():
        store.is_away = True


def test_claims_that_could_not_be_released_after_an_exception_let_that_go_on(jobs: tenure.Jobs, store: Any) -> None:
    jobs.enqueue("work")

    with pytest.raises(ZeroDivisionError) as caught, jobs.claim():
        store.is_away = True
        1 / 0  # noqa: B018

    assert caught.value.__notes__ == ["tenure: could not release the unsettled claims: gone"]


def test_no_claims_are_a_block_that_does_nothing(jobs: tenure.Jobs) -> None:
    with jobs.claim() as claims:
        assert claims == []


def test_the_back_off_of_jobs_is_used(jobs: tenure.Jobs, clock: Clock) -> None:
    claim = claim_one(jobs)
    claim.fail("why")

    job = jobs.get(claim.id)
    assert job is not None
    assert 0 <= (job.run_at - clock.now).total_seconds() <= 8


def test_a_claim_shows_what_it_is(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs, id="a7")
    held = repr(claim)
    claim.complete()

    assert held == "<Claim of job 'a7', type 'work', fence 1: held>"
    assert repr(claim) == "<Claim of job 'a7', type 'work', fence 1: completed>"
    assert len(claim.token) == 32


def test_a_lost_claim_shows_that_too(jobs: tenure.Jobs) -> None:
    claim = claim_one(jobs, id="a7")
    claim.lease.is_over = True

    assert repr(claim) == "<Claim of job 'a7', type 'work', fence 1: lost>"


def elsewhere(store: Any, claim: tenure.Claim, **options: Any) -> tenure.Claim:
    """Attach to the claim, as from a second process."""
    return tenure.Jobs(store).attach(claim.id, **{"fence": claim.fence, "token": claim.token, **options})


def test_a_claim_is_completed_by_another_process_that_has_its_fence_and_token(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)

    elsewhere(store, claim).complete("done elsewhere")

    job = jobs.get(claim.id)
    assert job is not None
    assert (job.state, job.result) == (tenure.State.COMPLETED, "done elsewhere")


def test_a_claim_made_elsewhere_is_extended_when_its_block_is_entered(
    jobs: tenure.Jobs, store: Any, clock: Clock
) -> None:
    claim = claim_one(jobs)
    clock.advance(50)
    handle = elsewhere(store, claim)
    before = handle.is_lost

    with handle:
        is_lost, job = handle.is_lost, jobs.get(claim.id)

    assert (before, is_lost) == (True, False)
    assert job is not None
    assert job.leased_until is not None
    assert (job.leased_until - clock.now).total_seconds() == 60
    assert state_of(jobs, claim) is tenure.State.COMPLETED


def test_a_claim_made_elsewhere_is_not_extended_before_it_is_used(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)
    before = jobs.get(claim.id)

    elsewhere(store, claim, lease=600)

    assert jobs.get(claim.id) == before


def test_the_handle_of_a_claim_that_is_over_is_refused(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)
    steal(store, claim)

    with pytest.raises(tenure.ClaimLost, match="nothing was written") as caught:
        elsewhere(store, claim)
    with pytest.raises(tenure.ClaimLost, match="lost the claim of job 'none' with fence 7"):
        jobs.attach("none", fence=7, token="t")

    assert (caught.value.id, caught.value.fence) == (claim.id, 1)


def test_who_has_a_wrong_token_cannot_end_the_claim_nor_enter_it(jobs: tenure.Jobs, store: Any) -> None:
    claim = claim_one(jobs)

    with pytest.raises(tenure.ClaimLost):
        elsewhere(store, claim, token="wrong").complete()
    with pytest.raises(tenure.ClaimLost), elsewhere(store, claim, token="wrong"):
        raise AssertionError

    assert state_of(jobs, claim) is tenure.State.RUNNING


def test_what_cannot_be_a_claim_is_refused(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match="fence must be a whole number, not '1'"):
        jobs.attach("a7", fence="1", token="t")  # type: ignore[arg-type]
    with pytest.raises(tenure.ConfigurationError, match="token must have 1 to 200 characters"):
        jobs.attach("a7", fence=1, token="")
    with pytest.raises(tenure.ConfigurationError, match="lease must be 1 to 86,400 seconds"):
        jobs.attach("a7", fence=1, token="t", lease=0)


def test_a_claim_ended_by_two_threads_at_once_is_ended_once(jobs: tenure.Jobs) -> None:
    for _ in range(20):
        claim = claim_one(jobs)

        def end(claim: tenure.Claim = claim) -> bool:
            try:
                claim.complete()
            except tenure.ClaimLost:
                return False
            return True

        assert sorted(run_concurrently([end, end])) == [False, True]
