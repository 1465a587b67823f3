"""`claim.complete(connection=…)`: the completion is part of the caller's transaction, and rolls back with it."""

import pytest

import tenure
from tests.stores import transactions
from tests.stores.transactions import Database, job_of, state

database, jobs, claim = transactions.database, transactions.jobs, transactions.claim


def test_a_completion_on_the_callers_connection_counts_when_that_commits(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with database.connect() as own:
        database.write(own, claim.id, claim.fence)
        claim.complete({"done": True}, connection=own)
        assert state(jobs) == "running"

    job = job_of(jobs)
    assert (job.state, job.result) == ("completed", {"done": True})
    assert database.effects() == ["job"]


def test_a_completion_on_the_callers_connection_is_undone_with_it(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with database.connect() as own:
        database.write(own, claim.id)
        claim.complete(connection=own)
        own.rollback()

    assert state(jobs) == "running"
    assert database.effects() == []


def test_a_stale_completion_on_the_callers_connection_is_refused(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    jobs.reap(worker=claim.job.worker)

    with pytest.raises(tenure.ClaimLost), database.connect() as own:
        database.write(own, claim.id)
        claim.complete(connection=own)

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_a_completion_that_was_committed_cannot_be_repeated(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with database.connect() as own:
        claim.complete("first", connection=own)

    with pytest.raises(tenure.ClaimLost, match="already completed"):
        claim.complete("second")

    assert job_of(jobs).result == "first"
    assert [count for count in jobs.counts() if count.event is tenure.Event.REFUSED] == []


def test_a_completion_that_was_rolled_back_can_be_tried_again(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with database.connect() as own:
        claim.complete(connection=own)
        own.rollback()
        assert state(jobs) == "running"

        database.write(own, claim.id)
        claim.complete("second try", connection=own)

    job = job_of(jobs)
    assert (job.state, job.result) == ("completed", "second try")
    assert database.effects() == ["job"]


def test_a_job_whose_completion_was_rolled_back_is_not_completed_by_leaving_its_block(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with database.connect() as own, claim:
        database.write(own, claim.id)
        claim.complete("never committed", connection=own)
        own.rollback()

    job = job_of(jobs)
    assert (job.state, job.attempts) == ("queued", 1)
    assert "was rolled back" in job.errors[0]
    assert database.effects() == []
    assert "was rolled back: the attempt failed" in caplog.text


def test_what_undid_the_callers_transaction_is_recorded_on_the_job(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with pytest.raises(ZeroDivisionError), claim, database.connect() as own:
        claim.complete(connection=own)
        raise ZeroDivisionError

    job = job_of(jobs)
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]


def test_an_exception_after_the_callers_commit_changes_nothing(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with pytest.raises(ZeroDivisionError), claim:
        with database.connect() as own:
            claim.complete(connection=own)
        raise ZeroDivisionError

    assert state(jobs) == "completed"


def test_while_the_callers_transaction_is_open_nothing_is_sent_behind_its_back(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with pytest.raises(ZeroDivisionError) as caught, database.connect() as own, claim:
        claim.complete(connection=own)
        raise ZeroDivisionError

    assert "if your transaction commits" in caught.value.__notes__[0]
    assert state(jobs) == "running"


def test_leaving_the_block_of_all_claims_gives_back_what_was_rolled_back(jobs: tenure.Jobs, database: Database) -> None:
    jobs.enqueue_many(tenure.NewJob("work", id=id) for id in ("kept", "undone", "never"))

    with jobs.claim(limit=4) as claims, database.connect() as own:
        mine = {claim.id: claim for claim in claims}
        mine["kept"].complete(connection=own)
        own.commit()
        mine["undone"].complete(connection=own)
        own.rollback()

    states = {id: state(jobs, id) for id in ("kept", "undone", "never")}
    assert states == {"kept": "completed", "undone": "queued", "never": "queued"}


def test_an_error_that_rolled_back_the_completion_is_recorded_by_the_block_of_all_claims(
    jobs: tenure.Jobs, database: Database
) -> None:
    with pytest.raises(ZeroDivisionError), jobs.claim() as claims:
        for claim in claims:
            with database.connect() as own:
                claim.complete(connection=own)
                raise ZeroDivisionError

    job = job_of(jobs)
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]


@pytest.mark.usefixtures("jobs")
def test_a_task_whose_own_transaction_is_rolled_back_is_tried_again(database: Database) -> None:
    with tenure.Jobs(database.url, backoff=tenure.Backoff(first=0)) as jobs:

        @jobs.task
        def work() -> None:
            run = tenure.current()
            with database.connect() as own:
                database.write(own, f"attempt {run.attempt}")
                run.complete(connection=own)
                if run.attempt == 1:
                    raise ZeroDivisionError

        jobs.work(drain=True)

        job = job_of(jobs)
        assert (job.state, job.attempts) == ("completed", 2)
        assert database.effects() == ["attempt 2"]
