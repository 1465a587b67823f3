"""`tenure.testing.claim()`: call a task that uses its run, without a worker."""

import asyncio

import pytest

import tenure
import tenure.testing

jobs = tenure.Jobs("memory://")


@jobs.task
def send(number: int) -> int:
    run = tenure.current()
    for n in range(number):
        run.raise_if_stopping()
        run.progress(n + 1, of=number)
    return run.attempt


def test_the_run_is_current_in_the_block_and_gone_after_it() -> None:
    with tenure.testing.claim() as run:
        assert tenure.current() is run
        assert (run.job.type, run.job.payload, run.attempt) == ("test", {}, 1)

    with pytest.raises(tenure.NoClaim):
        tenure.current()


def test_it_is_gone_after_an_exception() -> None:
    with pytest.raises(ValueError, match="wrong"), tenure.testing.claim():
        raise ValueError("wrong")

    with pytest.raises(tenure.NoClaim):
        tenure.current()


def test_blocks_stand_in_each_other() -> None:
    with tenure.testing.claim("outer") as outer:
        with tenure.testing.claim("inner"):
            assert tenure.current().job.type == "inner"
        assert tenure.current() is outer


def test_the_job_and_the_attempt_are_as_given() -> None:
    with tenure.testing.claim("send", {"to": "ada"}, attempt=3, queue="mail", delay=60, id="mine") as run:
        assert (run.attempt, run.fence, run.idempotency_key) == (3, 3, "mine")
        assert (run.job.type, run.job.payload, run.job.queue) == ("send", {"to": "ada"}, "mail")


def test_an_attempt_that_the_job_does_not_have_is_refused() -> None:
    with pytest.raises(tenure.ConfigurationError, match="attempt must be 1 to 2, not 3"):
        tenure.testing.claim(attempt=3, max_attempts=2).__enter__()


def test_progress_is_shown_at_once() -> None:
    with tenure.testing.claim(attempt=2) as run:
        assert send(4) == 2
        assert run.stored.progress == tenure.Progress(done=4, of=4)


def test_a_cancel_that_is_asked_for_is_known_to_the_run() -> None:
    with tenure.testing.claim() as run:
        run.request_cancel()

        assert run.cancel_requested
        assert run.is_stopping
        with pytest.raises(tenure.Cancel):
            send(1)


def test_a_run_that_was_lost_is_known_to_be_and_cannot_be_ended() -> None:
    with tenure.testing.claim() as run:
        run.lose()

        assert run.is_lost
        with pytest.raises(tenure.ClaimLost):
            send(1)
        with pytest.raises(tenure.ClaimLost):
            run.complete()
        assert run.stored.state == "queued"


def test_an_ending_by_hand_is_shown() -> None:
    with tenure.testing.claim() as run:
        tenure.current().complete("done")

        assert (run.stored.state, run.stored.result) == ("completed", "done")


def test_there_is_no_transaction_to_share() -> None:
    with tenure.testing.claim() as run, pytest.raises(tenure.ConfigurationError, match="has no SQL transactions"):
        run.transaction()


def test_its_twin_is_awaited() -> None:
    with tenure.testing.claim() as run:
        asyncio.run(run.aio.complete("done"))

        assert run.stored.result == "done"
