"""Claims by hand on the command line: output, input and rejected input."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.backends.sqlite import SQLite
from tenure.cli.program import run
from tenure.core.operations import BUSY, HoldStatus, Settled, Settlement, Unsettled
from tests.cli.terminal import Terminal
from tests.tiers import starts_processes

Call = Callable[..., tuple[int, list[str], list[str]]]

FIELDS = {
    *("id", "fence", "token", "type", "queue", "payload", "attempt", "lease", "leased_until"),
    *("meta", "key", "priority"),
}


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tenure.Jobs]:
    monkeypatch.chdir(tmp_path)
    with tenure.Jobs("sqlite:///tenure.db") as jobs:
        jobs.stats()
        yield jobs


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `tenure` with these arguments and this input; return the exit code and the printed lines."""

    def call(*arguments: str, given: str | bytes = "") -> tuple[int, list[str], list[str]]:
        encoded = given if isinstance(given, bytes) else given.encode()
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(encoded), "utf-8"))
        code = run(arguments)
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err.splitlines()

    return call


def claimed(jobs: tenure.Jobs, number: int = 1, **options: Any) -> list[str]:
    """Enqueue and claim a number of jobs; return the printed claims."""
    jobs.enqueue_many(tenure.NewJob("work", id=f"job-{n}", **options) for n in range(number))
    claims = jobs.claim(limit=number, worker="w1")
    return [json.dumps({"id": each.id, "fence": each.fence, "token": each.token}) for each in claims]


def states(jobs: tenure.Jobs) -> list[str]:
    return [str(job.state) for job in jobs.find(newest_first=False)]


def test_a_claim_is_a_line_of_json_with_all_that_its_holder_needs(jobs: tenure.Jobs, call: Call) -> None:
    jobs.enqueue("send", {"to": "ada\u2028"}, queue="mail", id="a7", key="k", priority=3, meta={"origin": "web"})

    code, out, err = call("claim", "--queue", "mail", "--type", "send", "--lease", "2m", "--worker", "w1")

    job = jobs.get("a7")
    assert job is not None
    assert (code, len(out), err) == (0, 1, [])
    record = json.loads(out[0])
    assert record.keys() == FIELDS
    assert record["payload"] == {"to": "ada\u2028"}
    assert (record["id"], record["fence"], record["attempt"], record["lease"]) == ("a7", 1, 1, 120)
    assert (record["key"], record["priority"], record["meta"]) == ("k", 3, {"origin": "web"})
    assert (job.state, job.worker) == (tenure.State.RUNNING, "w1")


def test_a_claim_is_the_same_line_with_and_without_json(jobs: tenure.Jobs, call: Call) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(2))

    _, plain, _ = call("claim")
    _, as_json, _ = call("claim", "--json")

    assert json.loads(plain[0]).keys() == json.loads(as_json[0]).keys()


def test_no_more_than_the_limit_are_claimed(jobs: tenure.Jobs, call: Call) -> None:
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(3))

    _, out, _ = call("claim", "--limit", "2")

    assert len(out) == 2
    assert jobs.stats().total("due") == 1


@pytest.mark.usefixtures("jobs")
def test_nothing_due_prints_nothing_and_ends_with_3(call: Call) -> None:
    assert call("claim") == (3, [], [])


def test_what_a_claim_printed_completes_the_job(jobs: tenure.Jobs, call: Call) -> None:
    jobs.enqueue("work", id="a7")
    _, (line,), _ = call("claim")

    ended = call("complete", line, "--result", '{"sent": true}')

    job = jobs.get("a7")
    assert job is not None
    assert ended == (0, ["a7  completed"], [])
    assert (job.state, job.result) == (tenure.State.COMPLETED, {"sent": True})


def test_claims_are_read_from_the_standard_input(jobs: tenure.Jobs, call: Call) -> None:
    lines = claimed(jobs, 3)

    code, out, _ = call("complete", given="\n\n".join(lines) + "\n")

    assert (code, len(out)) == (0, 3)
    assert states(jobs) == ["completed"] * 3


def test_claims_of_several_lines_may_be_one_argument(jobs: tenure.Jobs, call: Call) -> None:
    lines = claimed(jobs, 2)

    code, _, _ = call("release", "\n".join(lines))

    assert code == 0
    assert [job.attempts for job in jobs.find(state="queued")] == [0, 0]


def test_no_claims_on_the_standard_input_are_nothing_to_do(jobs: tenure.Jobs, call: Call) -> None:
    claimed(jobs)

    assert call("complete", given="\n") == (0, [], [])
    assert states(jobs) == ["running"]


def test_a_failure_is_tried_again_by_the_policy_of_the_job(jobs: tenure.Jobs, call: Call) -> None:
    lines = [*claimed(jobs, 1), *claimed_last(jobs)]

    ended = call("fail", *lines, "--error", "the server is away", "--json")

    assert ended[0] == 0
    assert [json.loads(line) for line in ended[1]] == [
        {"id": "job-0", "fence": 1, "outcome": "failed"},
        {"id": "last", "fence": 1, "outcome": "failed"},
    ]
    assert states(jobs) == ["queued", "failed"]
    assert [job.errors for job in jobs.find()] == [["the server is away"]] * 2


def claimed_last(jobs: tenure.Jobs) -> list[str]:
    """Return the claim of a job on its last attempt."""
    jobs.enqueue("work", id="last", max_attempts=1)
    (claim,) = jobs.claim()
    return [json.dumps({"id": claim.id, "fence": claim.fence, "token": claim.token, "type": "ignored"})]


def test_a_final_failure_is_not_tried_again(jobs: tenure.Jobs, call: Call) -> None:
    (line,) = claimed(jobs)

    call("fail", line, "--error", "no such user", "--final")

    assert states(jobs) == ["failed"]


def test_a_failure_with_a_delay_is_tried_again_after_that(jobs: tenure.Jobs, call: Call) -> None:
    (line,) = claimed(jobs)

    call("fail", line, "--error", "away", "--delay", "10m")

    (job,) = jobs.find()
    assert (job.history[0].outcome, job.errors) == ("retried", ["away"])
    assert (job.run_at - job.history[0].ended_at).total_seconds() == 600


def test_the_error_may_stand_in_a_file(jobs: tenure.Jobs, call: Call) -> None:
    (line,) = claimed(jobs)
    Path("error.log").write_text("boo\n", encoding="utf-8")

    call("fail", line, "--error", "@error.log")

    assert [job.errors for job in jobs.find()] == [["boo\n"]]


def test_an_extension_prolongs_and_shows_progress(jobs: tenure.Jobs, call: Call) -> None:
    (line,) = claimed(jobs)

    ended = call("extend", line, "--lease", "10m", "--progress", "3/10", "--note", "three")

    (job,) = jobs.find()
    assert ended == (0, ["job-0  held"], [])
    assert job.progress == tenure.Progress(done=3, of=10, note="three")
    assert job.leased_until is not None
    assert job.started_at is not None
    assert (job.leased_until - job.started_at).total_seconds() > 590


def test_an_extension_tells_that_a_cancel_was_asked_for(jobs: tenure.Jobs, call: Call) -> None:
    (line,) = claimed(jobs)
    jobs.cancel("job-0")

    code, out, _ = call("extend", line, "--json")

    assert code == 0
    assert json.loads(out[0])["outcome"] == "cancel requested"


@pytest.mark.parametrize("verb", [["complete"], ["fail", "--error", "why"], ["release"], ["extend"]])
def test_a_lost_claim_is_told_and_the_others_are_done(jobs: tenure.Jobs, call: Call, verb: list[str]) -> None:
    lost, held = claimed(jobs, 2)
    jobs.reap(worker="w1")
    jobs.claim(worker="w2", limit=1)
    (mine,) = jobs.claim(worker="w3")
    held = json.dumps({"id": mine.id, "fence": mine.fence, "token": mine.token})
    unknown = json.dumps({"id": "none", "fence": 1, "token": "t"})

    code, out, err = call(*verb, "--json", lost, held, unknown)

    outcomes = {record["id"]: record["outcome"] for record in map(json.loads, out)}
    assert code == 1
    assert (outcomes["job-0"], outcomes["none"]) == ("lost", "lost")
    assert outcomes["job-1"] != "lost"
    assert len(err) == 2
    assert any("lost the claim of job 'job-0' with fence 1" in line for line in err)


def test_an_ending_that_is_sent_again_has_landed(jobs: tenure.Jobs, call: Call) -> None:
    (line,) = claimed(jobs)
    call("complete", line)

    assert call("complete", line) == (0, ["job-0  completed"], [])


BAD = {
    "no JSON": ("{", "line 2 of the standard input is not valid JSON"),
    "no object": ("7", "line 2 of the standard input is not a JSON object"),
    "no token": ('{"id": "a", "fence": 1}', "line 2 of the standard input has no 'token'"),
    "a fence that is no number": ('{"id": "a", "fence": "1", "token": "t"}', "fence must be a whole number, not '1'"),
    "an id that is no name": ('{"id": 7, "fence": 1, "token": "t"}', "id must be a string, not 7"),
}


@pytest.mark.parametrize("mistake", BAD)
@pytest.mark.parametrize("verb", [["complete"], ["fail", "--error", "why"], ["release"], ["extend", "--lease", "1h"]])
def test_one_bad_line_is_named_and_nothing_is_done(
    jobs: tenure.Jobs, call: Call, verb: list[str], mistake: str
) -> None:
    (good,) = claimed(jobs)
    before = jobs.get("job-0")
    bad, message = BAD[mistake]

    code, out, err = call(*verb, given=f"{good}\n{bad}\n{good}\n")

    assert (code, out, len(err)) == (2, [], 1)
    assert message in err[0]
    assert jobs.get("job-0") == before


MISUSE = {
    "a wrong result": (["complete", "{}", "--result", "{"], "the result is not valid JSON"),
    "a result that no store keeps": (["complete", "--result", "NaN"], "the result is not JSON"),
    "an argument that is no claim": (["complete", "{}"], "the claim has no 'id'"),
    "no error": (["fail", "{}"], "missing option '--error'"),
    "an empty error": (["fail", "--error", ""], "the error must be text"),
    "a missing file": (["fail", "--error", "@none"], "'none': No such file"),
    "final and a delay": (
        ["fail", "--error", "x", "--final", "--delay", "1s"],
        "pass either --final or --delay, not both",
    ),
    "no progress": (["extend", "--progress", "half"], "invalid progress 'half': use 3 or 3/10"),
    "a note alone": (["extend", "--note", "x"], "--note needs --progress"),
    "a lease out of range": (["extend", "--lease", "0"], "lease must be 1 to 86,400 seconds"),
    "a limit out of range": (["claim", "--limit", "0"], "limit must be 1 to 1,000"),
    "an unknown option": (["claim", "--queus", "mail"], "no such option '--queus'"),
    "a wrong time": (["claim", "--wait", "soon"], "invalid duration 'soon'"),
    "a wrong url": (["claim", "--url", "sqlit:///x.db"], "is not a store URL"),
    "a missing store": (["reap", "--url", "sqlite:///none.db"], "no store at 'sqlite:///none.db'"),
}


@pytest.mark.parametrize("mistake", MISUSE)
def test_misuse_is_told_in_one_line_and_changes_nothing(jobs: tenure.Jobs, call: Call, mistake: str) -> None:
    (good,) = claimed(jobs)
    before = jobs.get("job-0")
    arguments, message = MISUSE[mistake]

    code, out, err = call(*arguments, given=good)

    assert (code, out, len(err)) == (2, [], 1)
    assert message in err[0]
    assert jobs.get("job-0") == before


def test_input_that_is_no_text_is_refused(jobs: tenure.Jobs, call: Call) -> None:
    claimed(jobs)

    code, _, err = call("complete", given=b"\xff\n")

    assert code == 2
    assert "the standard input is not UTF-8" in err[0]


@starts_processes
def test_a_terminal_is_not_waited_for(terminal: Terminal) -> None:
    ran = terminal.start("complete", has_terminal=True).ended()

    assert (ran.code, ran.out) == (2, "")
    assert "no claim given" in ran.err


def test_what_ran_out_is_taken_back(jobs: tenure.Jobs, call: Call) -> None:
    claimed(jobs, 2)

    untouched = call("reap")
    code, out, _ = call("reap", "--worker", "w1", "--json")

    assert untouched == (0, [], ["no expired claims"])
    assert code == 0
    assert [json.loads(line) for line in out] == [
        {"id": f"job-{n}", "state": "queued", "worker": "w1", "fence": 1} for n in range(2)
    ]


def test_people_are_told_what_became_of_what_was_taken_back(jobs: tenure.Jobs, call: Call) -> None:
    claimed(jobs)

    _, out, _ = call("reap", "--worker", "w1")

    assert out == ["job-0  queued; was held by w1 with fence 1"]


@starts_processes
def test_claims_outlive_the_command_and_go_through_a_file(terminal: Terminal) -> None:
    with terminal.jobs() as jobs:
        jobs.enqueue_many(tenure.NewJob("work") for _ in range(3))

        ran = terminal.run_script("tenure claim --limit 3 > claims && wc -l < claims && tenure complete < claims")

        assert (ran.code, ran.err) == (0, "")
        assert ran.out.split()[0] == "3"
        assert states(jobs) == ["completed"] * 3


@pytest.mark.parametrize(
    ("unsettled", "outcome", "told"),
    [
        (BUSY, "busy", "another transaction has locked the job"),
        (Unsettled("no invoice yet", is_failed=True), "rejected", "no invoice yet; the row failed with this message"),
        (Unsettled("no invoice yet"), "rejected", "so the row stays running"),
    ],
)
def test_an_outcome_that_is_not_recorded_is_told_and_the_others_are_recorded(
    jobs: tenure.Jobs, call: Call, monkeypatch: pytest.MonkeyPatch, unsettled: Unsettled, outcome: str, told: str
) -> None:
    claims = claimed(jobs, 2)
    settle = SQLite.settle
    monkeypatch.setattr("tenure.client.settling.BUSY_TIMEOUT", 0.05)
    monkeypatch.setattr(
        SQLite,
        "settle",
        lambda store, settlements: [
            unsettled if each.hold.id == "job-0" else settle(store, [each])[0] for each in settlements
        ],
    )

    code, out, err = call("complete", "--json", given="\n".join(claims))

    assert (code, len(err)) == (1, 1)
    assert told in err[0]
    assert [json.loads(line)["outcome"] for line in out] == [outcome, "completed"]


def test_outcomes_recorded_before_the_store_became_unavailable_are_printed(
    jobs: tenure.Jobs, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = claimed(jobs, 2)
    settle = SQLite.settle

    def settle_once(store: SQLite, settlements: Sequence[Settlement]) -> list[Settled]:
        if len(settlements) == 1:
            raise tenure.StoreUnavailable("away")
        return [BUSY if each.hold.id == "job-0" else settle(store, [each])[0] for each in settlements]

    monkeypatch.setattr(SQLite, "settle", settle_once)

    code, out, err = call("complete", "--json", given="\n".join(claims))

    assert (code, len(err)) == (1, 1)
    assert [json.loads(line)["outcome"] for line in out] == ["busy", "completed"]


@pytest.mark.parametrize("status", [HoldStatus.BUSY, HoldStatus.REJECTED])
def test_a_lease_that_is_not_extended_is_told(
    jobs: tenure.Jobs, call: Call, monkeypatch: pytest.MonkeyPatch, status: HoldStatus
) -> None:
    claims = claimed(jobs)
    monkeypatch.setattr(SQLite, "extend", lambda _, extensions: [status for _ in extensions])

    code, out, err = call("extend", "--json", given="\n".join(claims))

    assert (code, len(err)) == (1, 1)
    (line,) = map(json.loads, out)
    assert f"lease of job {line['id']!r} not extended" in err[0]
    assert line["outcome"] == status
