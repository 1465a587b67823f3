"""Commands on the rows of a Table, and commands that only support jobs."""

import json
import os
import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.processes.stage import PATIENCE, until
from tests.tiers import only_in_all, starts_processes

APP = """
from pathlib import Path

import tenure

jobs = tenure.Jobs("sqlite:///tenure.db?synchronous=normal")
orders = tenure.Table(
    "sqlite:///app.db?synchronous=normal", "orders", order_by="id", lease=120, output="invoices.order_id",
    where="source = 'scraper'", backoff=tenure.Backoff(first=0),
)


@jobs.task
def send() -> None:
    Path("sent").write_text("sent")


@orders.handler
def invoice(row: tenure.Row) -> None:
    if row.id == 13:
        raise ValueError("out of paper")
    with tenure.current().transaction() as connection:
        connection.execute("insert into invoices values (?)", (row.id,))
"""


@pytest.fixture
def app(shell: Shell) -> Shell:
    """A shell in a folder with an app that has tasks and a Table of three orders."""
    shell.write("app.py", APP)
    execute(
        shell,
        "pragma journal_mode = wal",
        "create table orders (id integer primary key, state text not null default 'queued', source text, picture blob)",
        "create table invoices (order_id integer)",
        "insert into orders (id, source, picture) values (1, 'scraper', x'00ff'), (2, 'scraper', null)",
    )
    shell.run("migrate", "app:orders")
    shell.run("migrate", "--app", "app:jobs")
    return shell


def execute(shell: Shell, *statements: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(shell.folder / "app.db", timeout=60)) as db, db:
        return [row for statement in statements for row in db.execute(statement).fetchall()]


TABLE = ("--app", "app:orders")


def test_jobs_and_rows_are_worked_on_by_one_command(app: Shell) -> None:
    app.run("enqueue", "send", "--app", "app:jobs")

    worked = app.run("work", "app:jobs", "app:orders", "--drain", "--json")

    assert worked.code == 0
    assert worked.records[-1]["completed"] == 3
    assert execute(app, "select order_id from invoices order by 1") == [(1,), (2,)]
    assert (app.folder / "sent").read_text() == "sent"


def test_a_table_alone_is_worked_on_and_its_duplicates_are_told(app: Shell) -> None:
    execute(app, "insert into invoices values (1)")

    worked, again = app.run("work", "app:orders", "--drain", "--json"), app.run("work", "app:orders", "--drain")

    assert (worked.code, again.code) == (0, 3)
    assert (worked.records[-1]["completed"], worked.records[-1]["prevented"]) == (2, 1)
    assert "row 1 of orders is already done; skipping the handler" in worked.err
    assert execute(app, "select order_id from invoices order by 1") == [(1,), (2,)]


def test_rows_are_counted_with_those_that_were_found_done(app: Shell) -> None:
    execute(app, "insert into invoices values (1)")
    app.run("work", "app:orders", "--drain")

    told, read = app.run("stats", *TABLE), app.run("stats", *TABLE, "--json")

    (row,) = read.records
    assert (row["completed"], row["prevented"], row["recovered"]) == (2, 1, 0)
    assert max(len(line) for line in told.lines) <= 80
    assert "prevented    1" in told.lines
    assert "prevented" not in app.run("stats", "--app", "app:jobs").out.lower()


def test_rows_are_listed_and_shown_whatever_their_columns_have(app: Shell) -> None:
    listed, read = app.run("jobs", "list", *TABLE), app.run("jobs", "list", *TABLE, "--json")
    shown, as_json = app.run("jobs", "show", "1", *TABLE), app.run("jobs", "show", "1", *TABLE, "--json")

    assert [listed.code, read.code, shown.code, as_json.code] == [0, 0, 0, 0]
    assert len(listed.lines) == 3
    assert {record["id"] for record in read.records} == {"1", "2"}
    assert as_json.records[0]["payload"]["picture"] == "\\x00ff"
    assert "\\\\x00ff" in shown.out
    assert "1970" not in shown.out + listed.out


def test_rows_are_explained_retried_and_cancelled(app: Shell) -> None:
    execute(app, "insert into orders (id, source) values (13, 'scraper'), (14, 'by hand')")
    app.run("work", "app:orders", "--drain")

    failed = app.run("jobs", "list", *TABLE, "--state", "failed", "--json").records
    explained, other = app.run("explain", "13", *TABLE), app.run("explain", "14", *TABLE)
    retried = app.run("jobs", "retry", *TABLE, "--attempts-over", "4", "--reason", "there is paper")
    cancelled = app.run("jobs", "cancel", "13", *TABLE)

    assert [each["id"] for each in failed] == ["13"]
    assert "no attempts left (5 of 5): ValueError: out of paper" in explained.out
    assert "`where` does not select it" in other.out
    assert retried.out == "retried: 1\n"
    assert cancelled.out == "cancelled: 1\n"


@starts_processes
def test_exec_names_a_row_whose_claim_its_table_rejects_and_runs_the_others(app: Shell) -> None:
    execute(
        app,
        "create trigger frozen before update on orders when new.id = 1 and new.state = 'running' "
        "begin select raise(abort, 'order 1 is frozen'); end",
    )

    with app.start("exec", *TABLE, "--drain", "--wait", "0", "--", "true") as process:
        _, told = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert "row 1 of orders not claimed: the table rejects the write: order 1 is frozen" in told
    assert execute(app, "select state from orders order by id") == [("queued",), ("completed",)]


def test_a_row_is_claimed_extended_and_ended_by_hand(app: Shell) -> None:
    (first,) = app.run("claim", *TABLE).records
    (second,) = app.run("claim", *TABLE, "--lease", "10m").records
    extended = app.run("extend", json.dumps(first), *TABLE)
    completed = app.run("complete", json.dumps(first), *TABLE)
    failed = app.run("fail", json.dumps(second), "--error", "no paper", "--final", *TABLE)
    late = app.run("complete", json.dumps(second), *TABLE)

    assert (first["id"], first["lease"], second["lease"]) == ("1", 120.0, 600.0)
    assert first["payload"]["picture"] == "\\x00ff"
    assert [extended.code, completed.code, failed.code, late.code] == [0, 0, 0, 1]
    assert execute(app, "select state from orders order by id") == [("completed",), ("failed",)]
    assert app.run("claim", *TABLE).code == 3


def test_rows_of_a_dead_worker_are_taken_back_and_those_that_are_done_are_completed(app: Shell) -> None:
    app.run("claim", *TABLE, "--worker", "dead", "--limit", "2")
    execute(app, "insert into invoices values (2)")

    reaped = app.run("reap", "--worker", "dead", *TABLE, "--json")

    assert {each["id"]: each["state"] for each in reaped.records} == {"1": "queued", "2": "completed"}


@starts_processes
def test_a_command_is_run_for_each_row_that_is_not_done(app: Shell) -> None:
    execute(app, "insert into invoices values (1)")
    app.write("work.sh", "#!/bin/sh\ncat >> seen\n").chmod(0o755)

    executed = app.run("exec", *TABLE, "--drain", "--wait", "0", "--", "./work.sh")

    assert executed.code == 0
    (line,) = (app.folder / "seen").read_text().splitlines()
    assert json.loads(line)["id"] == 2
    assert execute(app, "select state from orders") == [("completed",), ("completed",)]


@starts_processes
@pytest.mark.parametrize("also_rejects_failed", [False, True])
def test_a_row_that_rejects_its_outcome_keeps_no_other_row_from_being_run(
    app: Shell,
    also_rejects_failed: bool,  # noqa: FBT001
) -> None:
    rejected = "new.state != 'running'" if also_rejects_failed else "new.state = 'completed'"
    execute(
        app,
        f"create trigger paid before update on orders when old.state = 'running' and old.id = 1 and {rejected} "
        "begin select raise(abort, 'not paid'); end",
    )

    executed = app.run("exec", *TABLE, "--drain", "--wait", "0", "--json", "--", "true")

    outcomes = {each["id"]: each["outcome"] for each in executed.records}
    assert executed.code == 1
    assert outcomes == {"1": "unrecorded" if also_rejects_failed else "failed", "2": "completed"}
    assert ("rejected by its table: not paid" in executed.err) == also_rejects_failed
    assert [state for (state,) in execute(app, "select state from orders order by id")] == [
        "running" if also_rejects_failed else "failed",
        "completed",
    ]


@starts_processes
def test_a_row_whose_done_if_raises_fails_and_keeps_no_other_row_from_being_run(app: Shell) -> None:
    app.write("app.py", APP.replace('output="invoices.order_id"', "done_if=lambda row: 1 / (row.id - 1) > 1"))

    executed = app.run("exec", *TABLE, "--drain", "--wait", "0", "--", "true")

    assert executed.code == 1
    assert "job '1' failed: done_if raised ZeroDivisionError: division by zero" in executed.err
    assert execute(app, "select state from orders order by id") == [("failed",), ("completed",)]


@starts_processes
def test_a_done_if_that_is_invalid_for_every_row_ends_exec_and_fails_no_row(app: Shell) -> None:
    app.write("app.py", APP.replace('output="invoices.order_id"', "done_if=lambda row: 'yes', max_attempts=1"))

    executed = app.run("exec", *TABLE, "--drain", "--wait", "0", "--", "true")

    assert executed.is_told_in_one_line
    assert execute(app, "select distinct state from orders") == [("queued",)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["enqueue", "send", *TABLE], "app:orders is a Table, which this command does not support; pass a Jobs"),
        (["jobs", "delete", "1", *TABLE], "app:orders is a Table, which this command does not support"),
        (["jobs", "purge", "--older-than", "1d", *TABLE], "app:orders is a Table, which this command does not support"),
        (["queues", "pause", "orders", *TABLE], "app:orders is a Table, which this command does not support"),
        (["queues", "list", *TABLE], "app:orders is a Table, which this command does not support"),
        (["workers", *TABLE], "app:orders is a Table, which this command does not support"),
        (["jobs", "list", "--queue", "mail", *TABLE], "find has no option 'queue'"),
        (["claim", "--queue", "mail", *TABLE], "--queue and --type cannot be used with a Table"),
        (
            ["stats", *TABLE, "--url", "sqlite:///other.db"],
            "--url cannot be used with app:orders: a Table has its own URL",
        ),
        (
            ["work", "app:orders", "--url", "sqlite:///other.db"],
            "--url cannot be used with app:orders: a Table has its own URL",
        ),
        (["work", "app:orders", "--queue", "mail"], "queues applies to jobs, and this worker has only tables"),
        (["work", "app:orders", "app:orders"], "was passed twice"),
        (["jobs", "show", "99", *TABLE], "job '99' not found"),
        (["explain", "nobody", *TABLE], "job 'nobody' not found"),
    ],
)
def test_what_a_table_has_not_is_refused_in_one_line(app: Shell, arguments: list[str], said: str) -> None:
    told = app.run(*arguments)

    assert told.code == 2
    assert said in told.err
    assert "Traceback" not in told.err


HOLDING = """
import os, time
from pathlib import Path

import tenure

jobs = tenure.Jobs("sqlite:///tenure.db?synchronous=normal")
orders = tenure.Table("sqlite:///app.db?synchronous=normal", "orders", order_by="id", where="source = 'scraper'")


def hold(name: str) -> None:
    Path(f"{name}-held-by-{os.getpid()}").touch()
    while not Path("gate").exists():
        time.sleep(0.01)


@jobs.task
def send() -> None:
    hold("job")


@orders.handler
def invoice(row: tenure.Row) -> None:
    hold(f"row-{row.id}")
"""


@only_in_all
@starts_processes
def test_of_a_killed_process_what_it_had_started_is_taken_back_at_once_from_each_source(app: Shell) -> None:
    app.write("app.py", HOLDING)
    execute(app, "delete from orders where id > 1")
    app.run("enqueue", "send", "--app", "app:jobs", "--id", "7")

    process = app.start("work", "app:jobs", "app:orders", "--processes", "1", "--concurrency", "2", "--lease", "10m")
    try:
        until(lambda: len(list(app.folder.glob("*-held-by-*"))) == 2)
        (pid,) = {int(each.name.rpartition("-")[2]) for each in app.folder.glob("*-held-by-*")}
        os.kill(pid, signal.SIGKILL)
        until(lambda: len(list(app.folder.glob("*-held-by-*"))) == 4)
        app.write("gate", "")
        until(lambda: execute(app, "select distinct state from orders") == [("completed",)])
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    (job,) = app.run("jobs", "show", "7", "--app", "app:jobs", "--json").records
    (row,) = app.run("jobs", "show", "1", *TABLE, "--json").records

    assert (job["state"], job["crashes"], job["attempts"]) == ("completed", 1, 2)
    assert (row["state"], row["crashes"], row["attempts"]) == ("completed", 1, 2)
