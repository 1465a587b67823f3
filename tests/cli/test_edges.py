"""Hostile use of the command line."""

import json
import shlex
import sys
from dataclasses import replace

import pytest

from tenure.core.operations import Heartbeat
from tests.cli.shell import Result, Shell
from tests.processes.stage import PATIENCE
from tests.tiers import starts_processes


def typed(shell: Shell, line: str) -> Result:
    """Run a shell script in which `tenure` is the program under test."""
    command = line.replace("tenure", f"{shlex.quote(sys.executable)} -m tenure.cli", 1)
    process = shell.start_any("/bin/sh", "-c", command)
    out, err = process.communicate(timeout=PATIENCE)
    return Result(process.returncode, out, err)


@pytest.mark.parametrize("verb", ["complete", "release", "extend"])
def test_an_empty_claim_is_refused(made: Shell, verb: str) -> None:
    assert made.run(verb, "").code == 2


@starts_processes
def test_the_input_is_not_taken_for_the_result_and_the_claims(made: Shell) -> None:
    assert typed(made, "echo 5 | tenure complete --result -").code == 2


@starts_processes
def test_claims_that_cannot_be_printed_are_given_back(made: Shell) -> None:
    made.run("enqueue", "a", "--id", "j")

    assert typed(made, "tenure claim > /dev/full").code == 2
    assert made.run("jobs", "show", "j", "--json").records[0]["state"] == "queued"


@starts_processes
def test_the_exit_code_does_not_depend_on_whether_anybody_can_be_told(made: Shell) -> None:
    assert typed(made, "tenure bogus 2> /dev/full").code == 2


@starts_processes
def test_a_closed_input_is_told_in_a_line(made: Shell) -> None:
    result = typed(made, "tenure enqueue a - <&-")

    assert (result.code, result.err.count("\n")) == (2, 1)


def test_lines_may_begin_with_a_mark_and_have_separators_within(made: Shell) -> None:
    record = json.dumps({"type": "a", "payload": {"x": "a\u2028b"}}, ensure_ascii=False)
    made.write("lines", f"\ufeff{record}\r\n")

    assert made.run("enqueue", "--lines", "lines").code == 0


def test_numbers_without_measure_are_refused(made: Shell) -> None:
    assert made.run("enqueue", "a", '{"n": ' + "1" * 5000 + "}").code == 2
    assert made.run("jobs", "list", "-n", "9" * 20).code == 0
    assert made.run("jobs", "cancel", "--all", "--rate", "0.00000000001/h").code == 2


@pytest.mark.parametrize("group", ["jobs", "queues"])
def test_a_group_without_a_command_shows_its_help_as_it_is_written(shell: Shell, group: str) -> None:
    result = shell.run(group)

    assert result.code == 2
    assert "\n  list " in result.err


def test_an_app_that_ends_the_program_is_an_error(made: Shell) -> None:
    made.write("exits.py", "import sys\nsys.exit(0)\n")

    assert made.run("jobs", "list", "--app", "exits:jobs").code == 2


def test_what_an_app_prints_is_no_result(made: Shell) -> None:
    made.write("prints.py", "import tenure\nprint('hello')\njobs = tenure.Jobs('sqlite:///tenure.db')\n")

    assert made.run("jobs", "list", "--json", "--app", "prints:jobs").out == ""


def test_an_id_that_is_named_many_times_is_deleted_once(made: Shell) -> None:
    for id in ("a", "b"):
        made.run("enqueue", "t", "--id", id)
    made.run("jobs", "cancel", "a", "b")

    assert made.run("jobs", "delete", "a", *["b"] * 1100, "a").code == 0


def test_wide_ids_are_not_cut(made: Shell) -> None:
    made.run("enqueue", "t", "--id", "宽宽宽宽宽宽")

    assert "宽宽宽宽宽宽" in made.run("jobs", "list").out


@starts_processes
def test_a_command_in_another_folder_finds_the_store(shell: Shell) -> None:
    shell.run("enqueue", "t", "--url", "sqlite:///other.db")
    extend = f'cd / && {sys.executable} -m tenure.cli extend "$TENURE_CLAIM"'

    result = typed(shell, f"tenure exec --url sqlite:///other.db -- sh -c '{extend}'")

    assert result.code == 0, result.err


@starts_processes
def test_a_signal_to_the_whole_group_is_no_failure_of_the_command(made: Shell) -> None:
    made.run("enqueue", "t", "--id", "j")
    process = made.start("exec", "--", "sh", "-c", "kill -TERM 0; exec sleep 600")
    process.communicate(timeout=PATIENCE)

    assert process.returncode == 143
    assert made.run("jobs", "show", "j", "--json").records[0]["attempts"] == 0


def test_slots_of_a_worker_that_stands_still_do_not_count_as_free(made: Shell) -> None:
    with made.jobs() as jobs:
        for id in ("first", "second"):
            jobs.enqueue("t", id=id)
        beat = Heartbeat(name="busy", host="h", pid=1, version="1", concurrency=1)
        jobs._backend.beat(beat, 60.0)
        jobs._backend.beat(replace(beat, name="still", quiet_for=60.0), 60.0)
        jobs.claim(worker="busy")

        found = jobs.explain("second")

    assert found is not None
    assert found.verdict.startswith("not running: all 1 slots")


def test_a_dry_run_promises_nothing_that_cannot_be(made: Shell) -> None:
    assert made.run("jobs", "cancel", "-s", "completed", "--dry-run").code == 2
