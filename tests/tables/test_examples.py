"""The example programs with tables: several processes, a killed process, and one output per row."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.servers.servers import Servers, shared_names
from tests.tiers import only_in_all

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 120.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a program; running programs and their children are killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-u", *arguments]
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        started.append(program)
        return program

    yield start
    for program in started:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        assert program.stdout is not None
        program.stdout.close()


@pytest.fixture
def database(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a new database; the URL of the database is in the environment."""
    url, name = servers.shared(shared_names()[-1]).url, f"example_{uuid4().hex}"
    own = url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    monkeypatch.setenv("DATABASE_URL", own)
    with psycopg.connect(own, autocommit=True) as connection:
        yield connection
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'drop database "{name}" with (force)')


def run(name: str, *arguments: str) -> str:
    """Run an example to completion; return the output."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends_at, f"the condition did not hold within {PATIENCE:g} s"
        time.sleep(0.02)


def number(database: psycopg.Connection[Any], query: str) -> int:
    row = database.execute(query).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def locked(database: psycopg.Connection[Any], table: str, mode: str) -> Iterator[None]:
    """Lock a table in a separate transaction."""
    with psycopg.connect(database.info.dsn) as other:
        other.execute(f"lock table {table} in {mode} mode")
        yield


def children_of(program: subprocess.Popen[str]) -> list[int]:
    return [int(each) for each in Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()]


@only_in_all
def test_ingredients_are_matched_once_each_though_a_worker_is_killed_and_failed_ones_are_retried(
    database: psycopg.Connection[Any], start: Start
) -> None:
    """Slow: a supervisor starts workers and replaces a killed worker."""
    run("ingredients.py", "setup", "60")
    running = "select count(*) from ingredient_match_queue where status = 'processing'"
    with locked(database, "products", "access exclusive"):
        program = start("-m", "tenure.cli", "work", "ingredients:queue", "--processes=3", "--concurrency=4")
        until(lambda: number(database, running) >= 12)
        os.kill(children_of(program)[0], signal.SIGKILL)

    until(lambda: number(database, "select count(*) from matches") == 54)
    until(lambda: number(database, "select count(*) from ingredient_match_queue where status = 'failed'") == 6)
    run("ingredients.py", "restock")
    retried = run("ingredients.py", "retry")
    until(lambda: number(database, "select count(*) from ingredient_match_queue where status = 'resolved'") == 60)
    program.terminate()

    assert program.wait(PATIENCE) == 0
    assert retried == "retried: 6\n"
    assert number(database, "select count(*) from matches") == 60
    assert number(database, "select count(distinct queue_id) from matches") == 60
    assert (
        number(database, "select count(*) from ingredient_match_queue where source = 'by hand' and attempt_count = 0")
        == 1
    )
    assert number(database, "select count(*) from ingredient_match_queue where resolved_by = 'no product'") == 0


def test_an_order_whose_processor_was_killed_after_its_invoice_gets_no_second_one(
    database: psycopg.Connection[Any], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: the lease of a killed process expires."""
    monkeypatch.setenv("LEASE", "5")
    run("invoices.py", "setup", "40")
    with locked(database, "invoices", "exclusive"):
        first, second = (start(EXAMPLES / "invoices.py", "work") for _ in range(2))
        until(lambda: number(database, "select count(*) from orders where status = 'started'") >= 8)
        # Now processes can insert invoices, and cannot mark orders as done.
        noting = locked(database, "orders", "share row exclusive")
        noting.__enter__()
    until(lambda: number(database, "select count(*) from invoices") >= 8)
    first.kill()
    first.wait()
    noting.__exit__(None, None, None)

    until(lambda: number(database, "select count(*) from orders where status = 'done'") == 40)
    said = run("invoices.py", "show")
    second.terminate()

    assert second.wait(PATIENCE) == 0
    assert number(database, "select count(*) from invoices") == 40
    assert number(database, "select count(distinct order_id) from invoices") == 40
    assert "done: 40" in said
    assert "left: 0" in said
    assert "recovered: 0," not in said


@only_in_all
def test_executions_are_done_once_each_by_whoever_is_left_and_the_urgent_ones_first(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: three processes start, and the lease of a killed process expires."""
    monkeypatch.setenv("LEASE", "3")
    run("executions.py", "add", "300")
    programs = [start(EXAMPLES / "executions.py", "run") for _ in range(3)]
    assert programs[0].stdout is not None
    programs[0].stdout.readline()
    programs[0].kill()

    codes = [program.wait(PATIENCE) for program in programs]

    with closing(sqlite3.connect("executions.db")) as db:
        outputs = db.execute("select count(*), count(distinct execution_id) from outputs").fetchone()
        states = db.execute("select status, count(*) from executions group by status").fetchall()
        first = db.execute(
            "select priority from executions e join outputs o on o.execution_id = e.id order by o.rowid limit 1"
        ).fetchone()
        workers = {worker for (worker,) in db.execute("select distinct worker_id from outputs")}
    assert codes == [-signal.SIGKILL, 0, 0]
    assert outputs == (300, 300)
    assert states == [("completed", 300)]
    assert first == (2,)
    assert workers <= {f"worker_{program.pid}" for program in programs}
