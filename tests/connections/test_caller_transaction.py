"""A job and the caller's data are committed together, with every kind of connection."""

from uuid import uuid4

import pytest
from sqlalchemy import orm, text

import tenure
from tests.connections.conftest import Home
from tests.connections.drivers import engine_of
from tests.postgres.stores import Place


def test_a_job_is_there_if_the_transaction_commits(home: Home) -> None:
    id = uuid4().hex

    async def story() -> None:
        async with home.opened() as own:
            await own.write(id)
            await own.enqueue(home.jobs, "send", payload={"to": "ada"}, id=id, queue=home.queue, priority=3)
            assert home.state(id) is None
            await own.commit()

    home.kind.run(story())

    job = home.jobs.get(id)
    assert job is not None
    assert (job.state, job.payload, job.priority) == ("queued", {"to": "ada"}, 3)
    assert home.effects(id) == 1


def test_a_job_is_not_there_if_the_transaction_is_rolled_back(home: Home) -> None:
    id = uuid4().hex

    async def story() -> None:
        async with home.opened() as own:
            # Before any other statement: some drivers begin the transaction only with the first one.
            await own.enqueue(home.jobs, "send", id=id, queue=home.queue)
            await own.write(id)
            await own.rollback()

    home.kind.run(story())

    assert home.state(id) is None
    assert home.effects(id) == 0


def test_a_task_is_enqueued_in_the_transaction_that_it_is_told_to_use(home: Home) -> None:
    jobs = tenure.Jobs(home.place.url)

    @jobs.task(type=f"greet {home.queue}")
    def greet(name: str) -> None: ...

    async def story() -> None:
        async with home.opened() as own:
            using = greet.using(connection=own.connection)
            kept = await using.aio.enqueue("ada") if home.kind.is_async else using.enqueue("ada")
            assert home.state(kept) is None
            await own.commit()
        assert home.state(kept) == "queued"

    with jobs:
        home.kind.run(story())


def test_a_completion_an_effect_and_the_next_job_are_one_commit(home: Home) -> None:
    id, after = uuid4().hex, uuid4().hex
    claim = home.claim(id)

    async def story() -> None:
        async with home.opened() as own:
            await own.write(id)
            await own.enqueue(home.jobs, "next", id=after, queue=home.queue)
            await own.complete(claim, {"written": 1})
            assert (home.state(id), home.state(after)) == ("running", None)
            await own.commit()

    home.kind.run(story())

    job = home.jobs.get(id)
    assert job is not None
    assert (job.state, job.result) == ("completed", {"written": 1})
    assert home.state(after) == "queued"
    assert home.effects(id) == 1
    assert claim.is_settled


def test_a_completion_that_is_rolled_back_can_be_tried_again(home: Home) -> None:
    id = uuid4().hex
    claim = home.claim(id)

    async def story() -> None:
        async with home.opened() as own:
            await own.write(id)
            await own.complete(claim)
            await own.rollback()
        assert home.state(id) == "running"
        async with home.opened() as own:
            await own.write(id)
            await own.complete(claim)
            await own.commit()

    home.kind.run(story())

    assert home.state(id) == "completed"
    assert home.effects(id) == 1


def test_leaving_the_block_of_a_claim_whose_completion_was_rolled_back_gives_the_job_back(home: Home) -> None:
    id = uuid4().hex
    claim = home.claim(id)

    async def story() -> None:
        async with home.opened() as own:
            await own.complete(claim)
            await own.rollback()

    with claim:
        home.kind.run(story())

    assert home.state(id) == "queued"


def test_a_late_holder_is_refused_and_nothing_of_its_transaction_has_to_be_kept(home: Home) -> None:
    id = uuid4().hex
    claim = home.claim(id)
    home.jobs.reap(worker=claim.job.worker)
    (after,) = home.jobs.claim(queues=home.queue)

    async def story() -> None:
        async with home.opened() as own:
            await own.write(id)
            with pytest.raises(tenure.ClaimLost, match=f"fence {claim.fence}"):
                await own.complete(claim)
            await own.rollback()

    home.kind.run(story())

    assert home.effects(id) == 0
    assert home.state(id) == "running"
    after.complete()


def test_a_key_that_is_taken_leaves_the_transaction_as_it_was(home: Home) -> None:
    holder, id = uuid4().hex, uuid4().hex
    home.jobs.enqueue("send", id=holder, key="ada", queue=home.queue)

    async def story() -> None:
        async with home.opened() as own:
            await own.write(id)
            assert await own.enqueue(home.jobs, "send", key="ada", queue=home.queue) == holder
            with pytest.raises(tenure.KeyTaken) as told:
                await own.enqueue(home.jobs, "send", id=id, key="ada", on_conflict="raise", queue=home.queue)
            assert told.value.id == holder
            await own.commit()

    home.kind.run(story())

    assert home.state(id) is None
    assert home.effects(id) == 1


def test_many_jobs_are_stored_in_their_order(home: Home) -> None:
    ids = [uuid4().hex for _ in range(50)]

    async def story() -> None:
        async with home.opened() as own:
            new = [tenure.NewJob("send", {"number": n}, id=id, queue=home.queue) for n, id in enumerate(ids)]
            assert await own.enqueue_many(home.jobs, new) == ids
            await own.commit()

    home.kind.run(story())

    with home.jobs.claim(queues=home.queue, limit=100) as claims:
        assert [claim.id for claim in claims] == ids


def test_what_a_payload_and_the_options_say_arrives_as_it_is(home: Home) -> None:
    id = uuid4().hex
    payload: dict[str, object] = {
        "text": "50 % of :request, $1 and \\ \"quoted\" 'so' ☃ 𝄞",
        "list": [1.5, None, True, {"a": []}],
    }

    async def story() -> None:
        async with home.opened() as own:
            await own.enqueue(
                home.jobs,
                "send",
                payload=payload,
                id=id,
                queue=home.queue,
                delay=3600,
                max_attempts=None,
                max_crashes=7,
                timeout=12.5,
                meta={"traceparent": "00-%s"},
            )
            await own.commit()

    home.kind.run(story())

    job = home.jobs.get(id)
    assert job is not None
    assert job.payload == payload
    assert (job.max_attempts, job.max_crashes, job.timeout, job.meta) == (None, 7, 12.5, {"traceparent": "00-%s"})
    assert (job.run_at - job.created_at).total_seconds() == 3600


def test_the_next_transaction_of_a_session_is_not_taken_for_the_one_that_was_rolled_back(
    place: Place, jobs: tenure.Jobs
) -> None:
    id, queue = uuid4().hex, uuid4().hex
    jobs.enqueue("work", id=id, queue=queue)
    (claim,) = jobs.claim(queues=queue)

    with engine_of("psycopg", place.server) as engine, orm.Session(engine) as session:
        with claim:
            claim.complete(connection=session)
            session.rollback()
            session.execute(text("select 1"))

        job = jobs.get(id)
        assert job is not None
        assert job.state == "queued"
