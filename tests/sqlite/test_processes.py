"""Many processes on one file: racing, killed, forked."""

import json
import sqlite3
import threading
from contextlib import closing
from itertools import groupby
from pathlib import Path

from tests.processes.stage import PATIENCE
from tests.sqlite.scenes import play
from tests.sqlite.verdict import effects, verdict
from tests.tiers import only_in_all

import tenure
from tenure.backends.sqlite import SQLite


@only_in_all
def test_after_thirty_kills_every_job_is_completed_once_and_none_is_lost(path: Path) -> None:
    """Slow: thirty processes are killed and replaced, and leases expire."""
    seen = play("storm", path, 5_000, 8, 30)

    found = verdict(path)
    assert seen == {"killed": 30, "ended": [0] * 8}
    assert found["states"] == {"completed": 5_000}
    assert found["happened"]["completed"] == 5_000
    assert found["crashes"] == found["happened"]["expired"] > 0
    assert found["integrity"] == "ok"
    assert found["numbers are true"]
    assert found["unpaired rows"] == 0
    assert effects(path)["of another claim than the one that completed"] == 0


def test_a_kill_between_any_two_statements_leaves_the_jobs_as_before_or_as_after(path: Path) -> None:
    """Slow: a process is killed at each of its statements."""
    seen = play("killed_at_each_statement", path)

    for operation, group in groupby(seen, key=lambda each: each[0]):
        states = [json.loads(state) for _, _, state in group]
        before, after = states[0], states[-1]
        assert before != after, operation
        assert len(states) > 5, operation
        assert all(state in (before, after) for state in states), operation


def test_ten_processes_that_open_a_new_file_at_once_all_find_a_store(path: Path) -> None:
    codes = play("opened_at_once", path, 10)

    with tenure.Jobs(f"sqlite:///{path}") as jobs:
        assert codes == [0] * 10
        assert {job.id for job in jobs.find()} == {f"job-{n}" for n in range(10)}


@only_in_all
def test_eight_processes_that_write_all_the_time_all_get_their_share(path: Path) -> None:
    done = play("shares", path, 8, 2)

    # A fair share is an eighth. With SQLite's own waiting, the smallest share is nearly zero.
    assert min(done) > sum(done) / 8 / 4, done


def test_a_store_that_is_open_can_be_used_on_both_sides_of_a_fork(path: Path) -> None:
    """Slow: processes fork, and both parent and child work."""
    seen = play("forked", path)

    assert seen["codes"] == [0] * 5
    assert seen["states"] == ["completed"] * 10
    assert seen["found"] == sorted(["before", *(f"{who}-{n}" for who in ("child", "parent") for n in range(5))])


def test_a_child_that_was_forked_in_a_transaction_cannot_use_the_store_nor_end_the_transaction(path: Path) -> None:
    seen = play("forked_in_a_transaction", path)

    assert seen["codes"] == [0, 0]
    assert "forked" in seen["told"]
    assert (seen["state"], seen["due"]) == ("completed", 300)
    assert verdict(path)["integrity"] == "ok"
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select job from receipts").fetchall() == [("job",)]


def test_interrupts_at_any_moment_leave_nothing_locked_and_nothing_half_done(path: Path) -> None:
    """Slow: hundreds of interrupts."""
    seen = play("interrupted", path, 500)

    found = verdict(path)
    assert seen == {"others": [0], "found": True}
    assert found["integrity"] == "ok"
    assert found["numbers are true"]
    assert found["unpaired rows"] == 0


def test_who_waits_is_woken_by_a_job_from_another_process(path: Path) -> None:
    store = SQLite(path)
    waiting = threading.Thread(target=store.wait, args=(None, None, 3600), daemon=True)
    waiting.start()

    play("opened_at_once", path, 1)

    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    store.close()
