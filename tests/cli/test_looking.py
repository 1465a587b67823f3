"""`tenure stats`, `queues`, `workers`, `explain`, `config`, `migrate`, `sql`, `completion`."""

import sqlite3

import pytest

import tenure
from tests.cli.shell import Shell
from tests.processes.stage import PATIENCE
from tests.tiers import starts_processes


def test_stats_count_by_queue_and_type_and_tell_what_happened(made: Shell) -> None:
    with made.jobs() as jobs:
        jobs.enqueue("send", queue="mail")
        jobs.enqueue("send", queue="mail", delay=60)
        jobs.enqueue("resize")
        jobs.claim(types="resize")[0].complete()

    result = made.run("stats")
    records = made.run("stats", "--json").records

    assert "last 1 h: 3 enqueued, 1 claimed, 1 completed" in result.out
    assert [(row["queue"], row["type"], row["due"], row["scheduled"]) for row in records[:-1]] == [
        ("default", "resize", 0, 0),
        ("mail", "send", 1, 1),
    ]
    assert records[-1]["enqueued"] == 3


@pytest.mark.parametrize(("number", "counted"), [(1, "1 attempt failed"), (2, "2 attempts failed")])
def test_stats_count_one_failed_attempt_in_the_singular(made: Shell, number: int, counted: str) -> None:
    with made.jobs() as jobs:
        jobs.enqueue_many(tenure.NewJob("send") for _ in range(number))
        for claim in jobs.claim(limit=number):
            claim.fail("broken")

    assert made.run("stats").out.endswith(f", {counted}\n")


def test_queues_are_paused_and_resumed(made: Shell) -> None:
    made.run("enqueue", "send", "--queue", "mail")

    paused = made.run("queues", "pause", "mail")
    listed = made.run("queues", "list", "--json").records

    assert paused.out == "paused: mail\n"
    assert (listed[0]["queue"], listed[0]["paused"], listed[0]["due"]) == ("mail", True, 1)
    assert "paused" in made.run("queues", "list").out
    assert made.run("stats").out.count("paused: mail") == 1
    assert made.run("queues", "resume", "mail").code == 0
    assert made.run("queues", "list", "--json").records[0]["paused"] is False


def test_to_pause_a_queue_without_jobs_is_done_and_remarked(made: Shell) -> None:
    result = made.run("queues", "pause", "mial")

    assert result.code == 0
    assert "queue 'mial' has no jobs at present" in result.err
    assert "was not paused" in made.run("queues", "resume", "mail").err


def test_workers_are_shown_with_what_they_hold(made: Shell) -> None:
    jobs = made.jobs()

    @jobs.task
    def send() -> None: ...

    with jobs:
        id = jobs.enqueue("other")
        with jobs.worker(name="w", concurrency=3), jobs.claim(types="other", worker="by hand"):
            text = made.run("workers").out
            known, by_hand = made.run("workers", "--json").records

    assert known["name"].startswith("w@")
    assert {"host", "pid", "version", "started_at", "beat_at", "types", "queues", "holds"} <= known.keys()
    assert (known["types"], known["concurrency"], known["holds"]) == (["send"], 3, [])
    assert (by_hand["name"], by_hand["holds"][0]["id"], by_hand["holds"][0]["fence"]) == ("by hand", id, 1)
    assert "runs send from every queue" in text
    assert "by hand  no heartbeat" in text


def test_explain_says_why_a_job_is_not_running(made: Shell) -> None:
    id = made.run("enqueue", "send", "--queue", "mail").out.strip()
    made.run("queues", "pause", "mail")

    result = made.run("explain", id)
    (record,) = made.run("explain", id, "--json").records

    assert result.code == 0
    assert "paused" in result.lines[0]
    assert "tenure queues resume mail" in result.out
    assert record["id"] == id
    assert any(not reason["holds"] for reason in record["reasons"])


def test_config_says_which_store_and_why(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("app.py", "import tenure\njobs = tenure.Jobs('sqlite:///app.db')\n")

    def asked(*arguments: str) -> tuple[str, str]:
        (record,) = shell.run("config", "--json", *arguments).records
        return record["store"], record["why"]

    assert asked() == ("sqlite:///tenure.db", "the default")
    monkeypatch.setenv("TENURE_URL", "sqlite:///env.db")
    assert asked() == ("sqlite:///env.db", "from $TENURE_URL")
    assert asked("--app", "app:jobs") == ("sqlite:///app.db", "from app:jobs")
    assert asked("--app", "app:jobs", "--url", "sqlite:///url.db") == ("sqlite:///url.db", "from --url")
    assert list(shell.folder.glob("*.db")) == []


def test_config_shows_no_password(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", "postgresql://ada:secret@db/app")

    result = shell.run("config")

    assert "secret" not in result.out + result.err
    assert "ada:***@db" in result.out


@pytest.mark.parametrize("url", ["postgresql://db/app", "redis://db", "redis+cluster://db"])
def test_config_does_not_claim_to_know_what_a_server_has(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("TENURE_URL", url)

    assert "server not contacted" in shell.run("config").out
    assert shell.run("config", "--json").records[0]["is_there"] is None


def test_migrate_makes_a_store_and_then_does_nothing(shell: Shell) -> None:
    made = shell.run("migrate")
    again = shell.run("migrate", "--json")

    assert made.out == "sqlite:///tenure.db created; schema version 2\n"
    assert again.records == [{"store": "sqlite:///tenure.db", "before": 2, "now": 2}]


def test_migrate_brings_an_older_schema_up_to_date(made: Shell) -> None:
    with sqlite3.connect(made.folder / "tenure.db") as db:
        db.execute("drop table tenure_schedules")
        db.execute("delete from tenure_schema where version = 2")
    db.close()

    assert made.run("migrate").out == "sqlite:///tenure.db migrated from schema version 1 to 2\n"


def test_a_schema_of_the_future_is_refused(made: Shell) -> None:
    with sqlite3.connect(made.folder / "tenure.db") as db:
        db.execute("insert into tenure_schema (version) values (99)")
    db.close()

    result = made.run("stats")

    assert result.code == 2
    assert "use a newer tenure" in result.err


def test_sql_lists_operations_and_prints_one(shell: Shell) -> None:
    names = [record["operation"] for record in shell.run("sql", "--json").records]

    assert {"claim", "settle", "extend", "reap", "schema"} <= set(names)
    for name in names:
        text = shell.run("sql", name).out
        assert "{" not in text.replace("{changes}", "").replace("{index}", "")
    assert "create table tenure_jobs" in shell.run("sql", "schema").out
    assert shell.run("sql", "clam").code == 2
    assert shell.run("sql", "--url", "memory://").code == 2
    assert list(shell.folder.glob("*.db")) == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell: Shell, name: str) -> None:
    result = shell.run("completion", name)

    assert result.code == 0
    assert "_TENURE_COMPLETE" in result.out


@starts_processes
def test_completion_knows_the_commands(shell: Shell) -> None:
    process = shell.start(env={"_TENURE_COMPLETE": "bash_complete", "COMP_WORDS": "tenure que", "COMP_CWORD": "1"})

    out, _ = process.communicate(timeout=PATIENCE)

    assert out.split() == ["plain,queues"]


def test_the_version_is_that_of_the_library(shell: Shell) -> None:
    assert shell.run("--version").out == f"tenure {tenure.__version__}\n"
