"""`tenure exec` without a run: wrong arguments, no store, or no due job."""

import pytest

import tenure
from tests.cli.attempts import the_job
from tests.cli.shell import Shell

MISUSE = {
    "no dashes": (["exec", "./work.sh", "-v"], "missing -- before the command: tenure exec [OPTIONS] -- ./work.sh"),
    "no command": (["exec", "--queue", "mail", "--"], "missing command"),
    "nothing": (["exec"], "missing command"),
    "an unknown option": (["exec", "--queus", "mail", "--", "true"], "no such option '--queus'"),
    "a command that is not on the path": (["exec", "--", "no-such-command"], "it is not on PATH"),
    "a lease out of range": (["exec", "--lease", "2d", "--", "true"], "lease must be 1 to 86,400 seconds"),
    "success given up on": (["exec", "--give-up-on", "0", "--", "true"], "0 is not in the range 1<=x<=255"),
    "a wrong url": (["exec", "--url", "postgre://x", "--", "true"], "is not a store URL"),
    "a missing store": (["exec", "--url", "sqlite:///none.db", "--", "true"], "no store at"),
}


@pytest.mark.parametrize("mistake", MISUSE)
def test_misuse_is_told_in_one_line_and_changes_nothing(made: Shell, jobs: tenure.Jobs, mistake: str) -> None:
    jobs.enqueue("work")
    arguments, message = MISUSE[mistake]

    ran = made.run(*arguments)

    assert ran.is_told_in_one_line, ran
    assert message in ran.err
    assert the_job(jobs).fence == 0


def test_a_file_that_is_no_store_is_told_in_one_line(made: Shell) -> None:
    (made.folder / "tenure.db").write_text("no database, " * 100)

    ran = made.run("exec", "--", "true")

    assert (ran.code, len(ran.err.splitlines())) == (2, 1)


def test_a_command_that_is_not_there_costs_no_job_an_attempt(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")

    ran = made.run("exec", "--", "./work.sh")

    assert (ran.code, ran.err) == (2, "tenure: cannot run './work.sh': no such file\n")
    assert the_job(jobs).fence == 0


def test_nothing_due_and_nothing_held_ends_with_3(made: Shell, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", delay=600)

    ran = made.run("exec", "--lease", "10m", "--", "true")

    assert (ran.code, ran.out, ran.err) == (3, "", "")


@pytest.mark.parametrize("options", [["--wait", "0"], ["--lease", "1"]])
def test_the_wait_for_a_holder_that_lives_is_bounded(made: Shell, jobs: tenure.Jobs, options: list[str]) -> None:
    jobs.enqueue("work")
    jobs.claim(lease=600)

    assert made.run("exec", *options, "--", "true").code == 3
