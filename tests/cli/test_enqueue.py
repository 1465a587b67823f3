"""`tenure enqueue`."""

import io
import json

import pytest

from tests.cli.shell import Shell

APP = """
import tenure
from datetime import date
jobs = tenure.Jobs()
@jobs.task(queue="mail", max_attempts=2, timeout=30)
def send(message_id: int, on: date) -> None: ...
"""


def stored(shell: Shell) -> list[dict[str, object]]:
    return shell.run("jobs", "list", "--json", "--limit", "0", "--oldest-first").records


def test_a_job_is_stored_and_its_id_printed(shell: Shell) -> None:
    result = shell.run(
        *("enqueue", "send", '{"to": "ada"}', "--queue", "mail", "--priority", "3", "--key", "k", "--meta", "a=b=c"),
        *("--max-attempts", "none", "--max-crashes", "2", "--timeout", "1m", "--delay", "1h", "--id", "one"),
    )

    (job,) = stored(shell)
    assert (result.code, result.out) == (0, "one\n")
    assert (job["payload"], job["queue"], job["priority"], job["key"]) == ({"to": "ada"}, "mail", 3, "k")
    assert (job["max_attempts"], job["max_crashes"], job["timeout"]) == (None, 2, 60.0)
    assert job["meta"] == {"a": "b=c"}


def test_a_moment_is_taken_with_its_zone_alone(shell: Shell) -> None:
    assert shell.run("enqueue", "send", "--at", "2030-01-01T00:00+01:00").code == 0
    assert stored(shell)[0]["run_at"] == "2029-12-31T23:00:00Z"

    result = shell.run("enqueue", "send", "--at", "2030-01-01T00:00")

    assert result.code == 2
    assert "has no time zone" in result.err


def test_a_payload_comes_from_a_file_or_the_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("payload.json", '{"n": 1}')
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"n": 2}')))

    shell.run("enqueue", "send", "@payload.json")
    shell.run("enqueue", "send", "-")

    assert [job["payload"] for job in stored(shell)] == [{"n": 1}, {"n": 2}]


def test_lines_are_stored_together(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"type": "send", "payload": {"n": n}, "run_at": "2030-01-01T00:00Z"} for n in range(3)]
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(("\n".join(map(json.dumps, lines)) + "\n\n").encode()))
    )

    result = shell.run("enqueue", "--lines", "-", "--queue", "bulk")

    assert len(result.lines) == 3
    assert [(job["payload"], job["queue"]) for job in stored(shell)] == [({"n": n}, "bulk") for n in range(3)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{oops", "line 2 is not valid JSON"),
        ("[]", "line 2 is not a job"),
        ('{"type": "send", "priorty": 1}', "line 2: a job has no option 'priorty'"),
        ('{"type": "send", "payload": [1]}', "line 2: the payload must be a JSON object"),
        ('{"type": "send", "run_at": "soon"}', "line 2: invalid run_at 'soon'"),
        ('{"type": "send", "priority": 99999}', "line 2: priority must be"),
    ],
)
def test_of_lines_with_one_wrong_none_is_stored(made: Shell, line: str, said: str) -> None:
    made.write("lines", f'{{"type": "send"}}\n{line}\n')

    result = made.run("enqueue", "--lines", "lines")

    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1
    assert stored(made) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["send", "{oops"], "the payload is not valid JSON"),
        (["send", "[1]"], "the payload must be a JSON object (a dict)"),
        (["send", '{"n": NaN}'], "which is nan"),
        (["send", "@nothing.json"], "nothing.json"),
        (["send", "--delay", "soon"], "invalid duration 'soon'"),
        (["send", "--delay", "1", "--at", "2030-01-01T00:00Z"], "not both"),
        (["send", "--max-attempts", "0"], "invalid number of attempts '0'"),
        (["send", "--meta", "nothing"], "invalid label 'nothing'"),
        (["send", "--priority", "99999"], "priority must be"),
        (["send", "--queue", ""], "queue must have"),
        ([], "pass either a type"),
        (["send", "--lines", "-"], "pass either a type"),
    ],
)
def test_what_cannot_be_stored_is_refused_in_one_line(made: Shell, arguments: list[str], said: str) -> None:
    result = made.run("enqueue", *arguments)

    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1
    assert stored(made) == []


def test_a_key_that_is_taken_gives_the_id_or_exit_1(shell: Shell) -> None:
    first = shell.run("enqueue", "send", "--key", "k")

    assert shell.run("enqueue", "send", "--key", "k").out == first.out
    refused = shell.run("enqueue", "send", "--key", "k", "--on-conflict", "raise")
    assert refused.code == 1
    assert "is taken by the live job" in refused.err


def test_with_an_app_its_task_decides_on_options_and_payload(shell: Shell) -> None:
    shell.write("app_with_task.py", APP)

    stored_ok = shell.run("enqueue", "send", '{"message_id": 1, "on": "2026-01-01"}', "--app", "app_with_task:jobs")
    wrong = shell.run("enqueue", "send", '{"message_id": 1, "on": "never"}', "--app", "app_with_task:jobs")
    unknown = shell.run("enqueue", "sned", "{}", "--app", "app_with_task:jobs")

    (job,) = stored(shell)
    assert stored_ok.code == 0
    assert (job["queue"], job["max_attempts"], job["timeout"]) == ("mail", 2, 30.0)
    assert wrong.code == 2
    assert "'on'" in wrong.err
    assert unknown.code == 2
    assert "did you mean 'send'?" in unknown.err
