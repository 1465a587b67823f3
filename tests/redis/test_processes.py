"""Many processes on one store: racing, killed, frozen, forked."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import tenure
from tests.redis.scenes import play
from tests.redis.stores import Place
from tests.redis.verdict import effects, faults, verdict
from tests.redis.witness import Witness
from tests.tiers import only_in_all


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tenure-redis-") as made:
        yield Path(made)


@only_in_all
def test_thirty_two_processes_claim_each_of_twenty_thousand_jobs_exactly_once(anywhere: Place, folder: Path) -> None:
    """Slow: 32 processes claim 20,000 jobs."""
    codes = play("race", anywhere, folder, 20_000, 32)

    found = verdict(anywhere)
    assert codes == [0] * 32
    assert found["states"] == {"completed": 20_000}
    assert found["happened"] == {"enqueued": 20_000, "claimed": 20_000, "completed": 20_000}
    assert found["faults"] == {}
    assert effects(anywhere, Witness(folder)) == {
        "effects": 20_000,
        "writes": 20_000,
        "of another claim than the one that completed": 0,
    }


@only_in_all
def test_after_thirty_kills_every_job_is_completed_once_and_none_is_lost(anywhere: Place, folder: Path) -> None:
    """Slow: thirty processes are killed and replaced, and leases expire."""
    seen = play("storm", anywhere, folder, 3_000, 8, 30)

    found = verdict(anywhere)
    assert seen == {"killed": 30, "ended": [0] * 8}
    assert found["states"] == {"completed": 3_000}
    assert found["happened"]["completed"] == 3_000
    assert found["crashes"] == found["happened"]["expired"] == found["endings that expired"] > 0
    assert found["faults"] == {}
    assert effects(anywhere, Witness(folder))["effects"] == 3_000
    assert effects(anywhere, Witness(folder))["of another claim than the one that completed"] == 0


@only_in_all
def test_the_completions_of_twenty_frozen_processes_are_lost_and_those_of_the_takers_stand(
    anywhere: Place, folder: Path
) -> None:
    """Slow: twenty processes start, and their leases expire."""
    seen = play("zombies", anywhere, folder, 20)

    found = verdict(anywhere)
    with tenure.Jobs(anywhere.url) as jobs:
        ends = {(job.state, job.result, job.fence) for job in jobs.find()}
    assert seen == {"taken": [0], "frozen": [0] * 20}
    assert ends == {("completed", "taken over", 2)}
    assert found["happened"]["refused"] >= found["happened"]["expired"] == found["crashes"] == 20
    assert found["faults"] == {}
    assert effects(anywhere, Witness(folder)) == {
        "effects": 20,
        "writes": 40,
        "of another claim than the one that completed": 0,
    }


def test_processes_that_enqueue_the_same_ids_and_keys_in_any_order_store_each_once(
    anywhere: Place, folder: Path
) -> None:
    seen = play("enqueued_twice", anywhere, folder, 100, 8)

    found = verdict(anywhere)
    assert seen == {"codes": [0] * 8, "created": 200}
    assert found["states"] == {"queued": 200}
    assert found["happened"] == {"enqueued": 200}
    assert found["faults"] == {}


def test_a_store_that_is_open_can_be_used_on_both_sides_of_a_fork(anywhere: Place, folder: Path) -> None:
    """Slow: processes fork and work on both sides."""
    seen = play("forked", anywhere, folder)

    assert seen["codes"] == [0] * 5
    assert seen["states"] == ["completed"] * 10
    assert seen["found"] == sorted(["before", *(f"{who}-{n}" for who in ("child", "parent") for n in range(5))])
    assert faults(anywhere) == {}
