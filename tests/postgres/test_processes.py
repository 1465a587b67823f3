"""Many processes on one schema: racing, killed, frozen, forked."""

import threading

import tenure
from tenure.backends.postgres import PostgreSQL
from tests.postgres.scenes import play
from tests.postgres.stores import Place
from tests.postgres.verdict import effects, verdict
from tests.processes.stage import PATIENCE
from tests.tiers import only_in_all


@only_in_all
def test_thirty_two_processes_claim_each_of_twenty_thousand_jobs_exactly_once(place: Place) -> None:
    """Slow: 32 processes claim 20,000 jobs."""
    codes = play("race", place, 20_000, 32)

    found = verdict(place)
    assert codes == [0] * 32
    assert found["states"] == {"completed": 20_000}
    assert found["happened"] == {"enqueued": 20_000, "claimed": 20_000, "completed": 20_000}
    assert found["faults"] == {}
    assert effects(place) == {
        "effects": 20_000,
        "writes": 20_000,
        "of another claim than the one that completed": 0,
    }


@only_in_all
def test_after_thirty_kills_every_job_is_completed_once_and_none_is_lost(place: Place) -> None:
    """Slow: thirty processes are killed and replaced, and leases expire."""
    seen = play("storm", place, 3_000, 8, 30)

    found = verdict(place)
    assert seen == {"killed": 30, "ended": [0] * 8}
    assert found["states"] == {"completed": 3_000}
    assert found["happened"]["completed"] == 3_000
    assert found["crashes"] == found["happened"]["expired"] == found["endings that expired"] > 0
    assert found["faults"] == {}
    assert effects(place)["effects"] == 3_000
    assert effects(place)["of another claim than the one that completed"] == 0


@only_in_all
def test_the_completions_of_twenty_frozen_processes_are_lost_and_those_of_the_takers_stand(place: Place) -> None:
    """Slow: twenty processes start, and their leases expire."""
    seen = play("zombies", place, 20)

    found = verdict(place)
    with tenure.Jobs(place.url) as jobs:
        ends = {(job.state, job.result, job.fence) for job in jobs.find()}
    assert seen == {"taken": [0], "frozen": [0] * 20}
    assert ends == {("completed", "taken over", 2)}
    assert found["happened"]["refused"] >= found["happened"]["expired"] == found["crashes"] == 20
    assert found["faults"] == {}
    assert effects(place) == {"effects": 20, "writes": 20, "of another claim than the one that completed": 0}


def test_ten_processes_that_open_a_new_schema_at_once_all_find_a_store(place: Place) -> None:
    codes = play("opened_at_once", place, 10)

    assert codes == [0] * 10
    assert place.execute("select count(distinct id) from S.jobs") == [(10,)]
    assert verdict(place)["faults"] == {}


def test_processes_that_enqueue_the_same_ids_and_keys_in_any_order_store_each_once(place: Place) -> None:
    seen = play("enqueued_twice", place, 100, 8)

    found = verdict(place)
    assert seen == {"codes": [0] * 8, "created": 200}
    assert found["states"] == {"queued": 200}
    assert found["happened"] == {"enqueued": 200}
    assert found["faults"] == {}


def test_a_store_that_is_open_can_be_used_on_both_sides_of_a_fork(place: Place) -> None:
    """Slow: processes fork and work on both sides."""
    seen = play("forked", place)

    assert seen["codes"] == [0] * 5
    assert seen["states"] == ["completed"] * 10
    assert seen["found"] == sorted(["before", *(f"{who}-{n}" for who in ("child", "parent") for n in range(5))])
    assert verdict(place)["faults"] == {}


def test_who_waits_is_woken_by_a_job_of_another_process(place: Place, store: PostgreSQL) -> None:
    store.migrate()
    waiting = threading.Thread(target=store.wait, args=(None, None, 3600), daemon=True)
    waiting.start()

    play("opened_at_once", place, 1)

    waiting.join(PATIENCE)
    assert not waiting.is_alive()
