"""`tenure jobs`: list jobs, and move them by ids or by filters."""

import json
import os
import signal
from collections.abc import Sequence
from itertools import repeat

import pytest

import tenure
from tenure.cli.bulk import Bulk
from tenure.cli.output import CommandOutput
from tests.cli.shell import Shell
from tests.processes.stage import PATIENCE
from tests.tiers import starts_processes


def given(shell: Shell, *, failed: int = 0, queued: int = 0, completed: int = 0, queue: str = "mail") -> list[str]:
    """Store jobs in these states; return their ids, in that order."""
    with shell.jobs() as jobs:
        ids = jobs.enqueue_many(repeat(tenure.NewJob("send", {"n": 7}, queue=queue), failed + completed))
        if ids:
            claims = jobs.claim(queues=queue, limit=len(ids))
            for number, claim in enumerate(claims):
                if number < failed:
                    claim.fail("TimeoutError: the relay did not answer", final=True)
                else:
                    claim.complete("ok")
        return ids + jobs.enqueue_many(repeat(tenure.NewJob("send", queue=queue), queued))


def states(shell: Shell) -> dict[str, str]:
    with shell.jobs() as jobs:
        return {job.id: job.state.value for job in jobs.find()}


def test_a_list_is_the_newest_first_and_says_when_there_are_more(made: Shell) -> None:
    ids = given(made, queued=3)

    result = made.run("jobs", "list", "--limit", "2")

    assert result.code == 0
    assert [line.split()[0] for line in result.lines] == ["ID", ids[2], ids[1]]
    assert "more jobs match" in result.err


def test_a_list_takes_every_condition(made: Shell) -> None:
    failed, completed = given(made, failed=1, completed=1)
    given(made, queued=1, queue="other")

    result = made.run(
        *("jobs", "list", "--json", "--queue", "mail", "--type", "send", "--state", "failed"),
        *("--error", "Timeout", "--since", "1h", "--attempts-over", "0"),
    )

    assert [record["id"] for record in result.records] == [failed]
    assert made.run("jobs", "list", "--json", "--due").records[0]["queue"] == "other"
    assert made.run("jobs", "list", "--json", "--state", "completed").records[0]["id"] == completed


def test_a_list_of_nothing_says_so(made: Shell) -> None:
    result = made.run("jobs", "list")

    assert (result.code, result.out) == (0, "")
    assert "no matching jobs" in result.err


def test_every_job_is_one_json_line(made: Shell) -> None:
    (id,) = given(made, failed=1)

    (record,) = made.run("jobs", "list", "--json").records

    assert record["id"] == id
    assert record["payload"] == {"n": 7}
    assert record["finished_at"].endswith("Z")
    assert record["history"][0]["outcome"] == "failed"
    assert record["errors"] == ["TimeoutError: the relay did not answer"]


def test_a_job_is_shown_with_payload_and_history(made: Shell) -> None:
    (id,) = given(made, failed=1)

    result = made.run("jobs", "show", id)

    assert result.code == 0
    for fact in (id, "send", "mail", "failed", '"n": 7', "TimeoutError: the relay did not answer", "fence 1"):
        assert fact in result.out


def test_what_others_wrote_cannot_command_the_terminal(made: Shell) -> None:
    with made.jobs() as jobs:
        jobs.enqueue("send")
        jobs.claim()[0].fail("\x1b[2J\x9b31mgone", final=True)

    shown = made.run("jobs", "show", made.run("jobs", "list", "--json").records[0]["id"]).out
    listed = made.run("jobs", "list").out

    assert "\x1b" not in shown + listed
    assert "\x9b" not in shown + listed
    assert "\\x1b[2J" in shown


def test_a_retry_by_ids_moves_them(made: Shell) -> None:
    one, two = given(made, failed=2)

    result = made.run("jobs", "retry", one, two, "--reason", "the relay is back")

    assert (result.code, result.out) == (0, "retried: 2\n")
    assert states(made) == {one: "queued", two: "queued"}
    history = made.run("jobs", "show", one, "--json").records[0]["history"]
    assert history[-1]["error"] == "retry: the relay is back"


@pytest.mark.parametrize("verb", ["retry", "cancel", "delete"])
def test_of_two_ids_with_one_unknown_neither_is_moved(made: Shell, verb: str) -> None:
    (id,) = given(made, queued=1) if verb == "cancel" else given(made, failed=1)
    before = states(made)

    result = made.run("jobs", verb, id, "nobody")

    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "job 'nobody' not found; nothing was done" in result.err
    assert states(made) == before


@pytest.mark.parametrize(("verb", "state"), [("retry", "completed"), ("cancel", "completed"), ("delete", "queued")])
def test_of_two_ids_with_one_that_cannot_neither_is_moved(made: Shell, verb: str, state: str) -> None:
    good, bad = given(made, failed=verb != "cancel", completed=state == "completed", queued=1)[:2]
    good, bad = (bad, good) if verb == "cancel" else (good, bad)
    before = states(made)

    result = made.run("jobs", verb, good, bad)

    assert result.code == 2
    assert f"job {bad!r} is {state}" in result.err
    assert "nothing was done" in result.err
    assert states(made) == before


def test_a_retry_by_conditions_moves_those_that_match_and_are_failed(made: Shell) -> None:
    failed, completed = given(made, failed=1, completed=1)
    (other,) = given(made, failed=1, queue="other")

    result = made.run("jobs", "retry", "--queue", "mail", "--error", "Timeout", "--since", "1h", "--json")

    assert result.records == [{"id": failed, "state": "queued", "refusal": None, "moved": True}]
    assert states(made) == {failed: "queued", completed: "completed", other: "failed"}


def test_cancelled_jobs_are_retried_if_their_state_is_named(made: Shell) -> None:
    given(made, queued=2)
    made.run("jobs", "cancel", "--all")

    assert made.run("jobs", "retry", "--all").out == "retried: 0\n"
    assert made.run("jobs", "retry", "--state", "cancelled").out == "retried: 2\n"


@pytest.mark.parametrize("verb", ["retry", "cancel"])
def test_without_ids_or_conditions_all_has_to_be_said(made: Shell, verb: str) -> None:
    given(made, failed=1, queued=1)
    before = states(made)

    result = made.run("jobs", verb)

    assert result.code == 2
    assert "--all" in result.err
    assert states(made) == before
    assert made.run("jobs", verb, "--all").code == 0
    assert states(made) != before


def test_ids_and_conditions_together_are_refused(made: Shell) -> None:
    (id,) = given(made, failed=1)

    assert made.run("jobs", "retry", id, "--queue", "mail").code == 2
    assert made.run("jobs", "retry", "--all", "--queue", "mail").code == 2
    assert states(made) == {id: "failed"}


def test_a_dry_run_says_which_and_moves_nothing(made: Shell) -> None:
    ids = given(made, failed=12)

    result = made.run("jobs", "retry", "--queue", "mail", "--dry-run")

    assert result.code == 0
    assert result.lines[0] == "would be retried: 12"
    assert ids[0] in result.out
    assert set(states(made).values()) == {"failed"}
    assert len(made.run("jobs", "retry", "--queue", "mail", "--dry-run", "--json").records) == 12


def test_a_job_that_was_taken_meanwhile_is_told_and_is_exit_1(made: Shell) -> None:
    with made.jobs() as jobs:
        jobs.enqueue("send", key="k")
        jobs.claim()[0].fail("no", final=True)
        jobs.enqueue("send", key="k")

    result = made.run("jobs", "retry", "--all")

    assert result.code == 1
    assert result.out == "retried: 0\n"
    assert "its key is taken by a live job" in result.err


def test_a_running_job_is_asked_to_stop_and_that_is_said(made: Shell) -> None:
    given(made, queued=2)

    with made.jobs() as jobs, jobs.claim():
        result = made.run("jobs", "cancel", "--all")

    assert result.lines == ["cancelled: 1", "running, cancel requested: 1"]


@starts_processes
def test_ctrl_c_stops_a_bulk_verb_between_two_batches(made: Shell) -> None:
    given(made, failed=600)
    process = made.start("jobs", "retry", "--all", "--rate", "4/s", "--json")
    assert process.stdout is not None
    first = process.stdout.readline()

    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=PATIENCE)

    moved = [json.loads(line)["id"] for line in [first, *rest.splitlines()]]
    assert process.returncode == 130
    assert "stopped after" in errors
    assert "Traceback" not in errors
    assert len(moved) < 600
    assert sorted(moved) == sorted(id for id, state in states(made).items() if state == "queued")


def test_at_a_rate_the_batches_are_small() -> None:
    batches: list[int] = []

    def act(ids: Sequence[str]) -> list[tenure.Moved]:
        batches.append(len(ids))
        return []

    Bulk(["1", "2", "3"], rate=8, output=CommandOutput(is_json=True)).run(act, lambda _: None)

    assert batches == [2, 1]


@starts_processes
def test_a_closed_pipe_ends_it_without_a_word(made: Shell) -> None:
    given(made, queued=1500)
    reader, writer = os.pipe()
    process = made.start("jobs", "list", "--limit", "0", stdout=writer)
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)

    _, errors = process.communicate(timeout=PATIENCE)

    assert (process.returncode, errors) == (128 + signal.SIGPIPE, "")


def test_finished_jobs_are_deleted_and_purged(made: Shell) -> None:
    failed, completed = given(made, failed=1, completed=1)

    assert made.run("jobs", "delete", failed).out == "deleted: 1\n"
    assert made.run("jobs", "purge", "--older-than", "1h").out == "deleted 0 jobs\n"
    assert made.run("jobs", "purge", "--older-than", "0", "--dry-run").out == "would delete 1 job\n"
    assert made.run("jobs", "purge", "--older-than", "0", "--state", "completed", "--json").records == [{"purged": 1}]
    assert states(made) == {}
    assert completed
