"""`claim.transaction()`: the caller's own writes, the completion and new jobs commit together or not at all."""

import pytest

import tenure
from tests.stores import transactions
from tests.stores.transactions import Database, job_of, state

database, jobs, claim = transactions.database, transactions.jobs, transactions.claim

ENDINGS = [
    "commit",
    "commit and chain",
    " -- a remark\n COMMIT work",
    "  /* now */ -- and here\n commit;",
    "end",
    "/* so */ end",
    "ROLLBACK",
    "rollback transaction",
    "rollback work and no chain",
    "abort",
    "begin",
    "begin immediate",
    "start transaction",
    "prepare transaction 'x'",
]
"""Statements that would end a transaction, on one of the stores or on all."""


def test_a_transaction_holds_the_effect_the_completion_and_new_jobs(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id, claim.fence)
        jobs.enqueue("next", id="next", connection=connection)
        claim.result = {"written": 1}

    job = job_of(jobs)
    assert (job.state, job.result) == ("completed", {"written": 1})
    assert database.effects() == ["job"]
    assert state(jobs, "next") == "queued"
    assert claim.is_settled


def test_nobody_sees_a_transaction_before_it_ends(jobs: tenure.Jobs, claim: tenure.Claim, database: Database) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        jobs.enqueue("next", id="next", connection=connection)

        assert database.effects() == []
        assert state(jobs, "next") is None
        assert state(jobs) == "running"


def test_a_stale_holder_is_refused_at_once_and_nothing_is_written(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    jobs.reap(worker=claim.job.worker)
    entered = False

    with pytest.raises(tenure.ClaimLost), claim.transaction() as connection:
        entered = True
        database.write(connection, claim.id)

    assert not entered
    assert claim.is_lost
    assert database.effects() == []
    assert state(jobs) == "queued"


def test_a_claim_can_have_its_transaction_once(claim: tenure.Claim) -> None:
    with claim.transaction():
        pass

    with pytest.raises(tenure.ClaimLost, match="already completed"), claim.transaction():
        pass


def test_an_exception_undoes_all_of_it_is_recorded_and_goes_on(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with pytest.raises(ZeroDivisionError), claim.transaction() as connection:
        database.write(connection, claim.id)
        jobs.enqueue("next", id="next", connection=connection)
        raise ZeroDivisionError

    job = job_of(jobs)
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]
    assert database.effects() == []
    assert state(jobs, "next") is None


def test_in_a_block_of_its_claim_an_exception_is_recorded_too(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with pytest.raises(ZeroDivisionError), claim, claim.transaction() as connection:
        database.write(connection, claim.id)
        raise ZeroDivisionError

    job = job_of(jobs)
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]
    assert database.effects() == []


def test_an_answer_undoes_it_and_ends_in_the_block(jobs: tenure.Jobs, claim: tenure.Claim, database: Database) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        raise tenure.Fail("not today")

    assert state(jobs) == "failed"
    assert database.effects() == []


def test_an_answer_as_its_result_is_refused(jobs: tenure.Jobs, claim: tenure.Claim, database: Database) -> None:
    with pytest.raises(tenure.ConfigurationError, match="raise Retry"), claim.transaction() as connection:
        database.write(connection, claim.id)
        claim.result = tenure.Retry()

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_a_result_that_is_no_json_undoes_it(jobs: tenure.Jobs, claim: tenure.Claim, database: Database) -> None:
    with pytest.raises(tenure.InvalidPayload), claim.transaction() as connection:
        database.write(connection, claim.id)
        claim.result = object()

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_an_interruption_undoes_it_and_gives_the_job_back(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with pytest.raises(KeyboardInterrupt), claim.transaction() as connection:
        database.write(connection, claim.id)
        raise KeyboardInterrupt

    job = job_of(jobs)
    assert (job.state, job.attempts) == ("queued", 0)
    assert database.effects() == []


def test_a_job_that_always_fails_in_its_transaction_is_not_tried_for_ever(
    jobs: tenure.Jobs, database: Database
) -> None:
    jobs.enqueue("doomed", id="doomed", max_attempts=1)
    (claim,) = jobs.claim(types="doomed")

    with pytest.raises(database.unknown_table), claim.transaction() as connection:
        connection.execute("insert into no_such_table values (1)")

    job = job_of(jobs, "doomed")
    assert job.state == "failed"
    assert "no_such_table" in job.errors[0]


def test_the_callers_own_errors_are_not_changed(jobs: tenure.Jobs, claim: tenure.Claim, database: Database) -> None:
    with pytest.raises(database.duplicate_row), claim.transaction() as connection:
        database.write(connection, claim.id)
        database.write(connection, claim.id)

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_a_transaction_cannot_be_ended_from_within(jobs: tenure.Jobs, claim: tenure.Claim, database: Database) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        for statement in ENDINGS:
            for execute in (connection.execute, connection.cursor().execute):
                with pytest.raises(tenure.ConfigurationError, match="commits when its block ends"):
                    execute(statement)

    assert database.effects() == ["job"]
    assert state(jobs) == "completed"


def test_the_methods_that_would_end_it_say_what_to_do_instead(claim: tenure.Claim, database: Database) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        with pytest.raises(tenure.ConfigurationError, match=r"remove the call of commit\(\)"):
            connection.commit()
        with pytest.raises(tenure.ConfigurationError, match="raise an exception instead of calling rollback"):
            connection.rollback()
        with pytest.raises(tenure.ConfigurationError, match="do not close the connection inside the block"):
            connection.close()
        with pytest.raises(tenure.ConfigurationError, match="do not use `with connection`"), connection:
            pass

    assert database.effects() == ["job"]


def test_savepoints_work_within(jobs: tenure.Jobs, claim: tenure.Claim, database: Database) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        connection.execute("savepoint mine")
        database.write(connection, "undone")
        connection.execute("rollback to mine")
        database.write(connection, "kept")

    assert database.effects() == ["job", "kept"]
    assert state(jobs) == "completed"


def test_a_completion_by_hand_within_is_the_one_that_counts(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        claim.complete("by hand", connection=connection)

    job = job_of(jobs)
    assert (job.state, job.result) == ("completed", "by hand")
    assert database.effects() == ["job"]


def test_a_completion_by_hand_within_is_undone_by_an_exception(
    jobs: tenure.Jobs, claim: tenure.Claim, database: Database
) -> None:
    with pytest.raises(ZeroDivisionError), claim, claim.transaction() as connection:
        database.write(connection, claim.id)
        claim.complete(connection=connection)
        raise ZeroDivisionError

    assert state(jobs) == "queued"
    assert database.effects() == []
