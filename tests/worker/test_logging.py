"""Log records of runs identify the job and worker, and never contain payloads or results."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tenure
from tenure.core.payload import MAX_JSON_BYTES
from tenure.service.logs import HumanFormatter, JSONFormatter
from tests.worker.looking import DEADLINE, until
from tests.worker.test_outage import Unreliable

FACTS = ("job", "type", "queue", "attempt", "fence", "worker")
SECRET = "hunter2"  # noqa: S105 - a fake password that must not be logged


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tenure")


def facts_of(caplog: pytest.LogCaptureFixture, words: str) -> dict[str, Any]:
    """Return the extra fields of the only record with `words`."""
    (record,) = [each for each in caplog.records if words in each.getMessage()]
    return {name: vars(record)[name] for name in FACTS}


def fail() -> None:
    raise ValueError("no luck")


def settle_and_fail() -> None:
    tenure.current().complete()
    raise ValueError("too late")


@pytest.mark.parametrize(
    ("function", "attempts", "words"),
    [
        (lambda: None, 1, "(work) ended: completed, "),
        (lambda: {1, 2}, 1, "its result was dropped"),
        (lambda: MAX_JSON_BYTES * "x", 1, "dropped: more than"),
        (fail, 2, "failed, attempt 1 of 2"),
        (fail, 1, "failed permanently: ValueError: no luck"),
        (lambda: tenure.Fail("no"), 1, "failed permanently: Fail"),
        (lambda: tenure.Snooze(3600), 1, "(work) ended: snoozed, "),
        (settle_and_fail, 1, "ignoring a later exception: ValueError: too late"),
    ],
)
def test_lines_about_a_run_that_ended_say_whose_it_was(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, function: Callable[[], Any], attempts: int, words: str
) -> None:
    jobs.task("work", backoff=tenure.Backoff(first=3600))(function)
    id = jobs.enqueue("work", queue="mail", max_attempts=attempts)

    with jobs.worker() as worker:
        until(lambda: words in caplog.text)

    known = {"job": id, "type": "work", "queue": "mail", "attempt": 1, "fence": 1, "worker": worker.name}
    assert facts_of(caplog, words) == known


def test_lines_about_a_run_that_was_lost_say_whose_it_was(jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task
    async def work() -> None:
        if tenure.current().attempt == 1:
            await asyncio.to_thread(jobs.reap, worker=tenure.current().job.worker)
            tenure.current().progress(1)  # makes the keeper send a request soon
            await asyncio.Event().wait()

    id = work.enqueue()
    with jobs.worker() as worker:
        work.result(id, timeout=DEADLINE)

    for words in (f"claim of job {id} lost", f"outcome of job {id} discarded"):
        known = facts_of(caplog, words)
        assert (known["job"], known["type"], known["attempt"], known["fence"]) == (id, "work", 1, 1)
        assert known["worker"] == worker.name


def test_lines_about_a_run_that_does_not_end_say_whose_it_was(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    """Slow: a run continues past its time limit and the grace period."""
    begun, may_end = threading.Event(), threading.Event()

    def stay() -> None:
        begun.set()
        while not may_end.is_set():
            try:
                may_end.wait(DEADLINE)
            except tenure.TaskInterrupted:
                continue

    jobs.task("limited", timeout=0.01)(stay)
    jobs.task("endless")(stay)
    limited, endless = jobs.enqueue("limited"), jobs.enqueue("endless")
    with jobs.worker(lease=2, grace=0) as worker:
        until(lambda: "ran past its time limit" in caplog.text)
    may_end.set()

    given_up = facts_of(caplog, "ran past its time limit")
    abandoned = facts_of(caplog, f"job {endless} is still running after the grace period")
    assert [given_up[name] for name in FACTS] == [limited, "limited", "default", 1, 1, worker.name]
    assert [abandoned[name] for name in FACTS] == [endless, "endless", "default", 1, 1, worker.name]


def test_a_line_about_a_run_whose_end_is_not_recorded_says_whose_it_was(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.claimer.FINAL_SETTLE_TIMEOUT", 0.1)
    store, begun, may_end = Unreliable(), threading.Event(), threading.Event()

    with tenure.Jobs(store) as jobs:

        @jobs.task
        def work() -> None:
            begun.set()
            may_end.wait(DEADLINE)

        id = work.enqueue()
        with jobs.worker() as worker:
            assert begun.wait(DEADLINE)
            store.is_cut = True
            may_end.set()

    known = facts_of(caplog, f"outcome of job {id} not recorded")
    assert [known[name] for name in FACTS] == [id, "work", "default", 1, 1, worker.name]


def test_a_line_about_a_claim_by_hand_that_was_lost_says_whose_it_was(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    id = jobs.enqueue("work", queue="mail")

    with jobs.claim(worker="w1", lease=3) as claims:
        jobs.reap(worker="w1")
        until(lambda: claims[0].is_lost)
        until(lambda: "lost" in caplog.text)

    known = facts_of(caplog, f"claim of job {id} lost")
    assert [known[name] for name in FACTS] == [id, "work", "mail", 1, 1, "w1"]


def complete(word: str) -> str:
    return word


def raise_an_error(word: str) -> None:
    raise ValueError(len(word))


def take_a_number(word: int) -> int:
    return word


def give_what_is_no_json(word: str) -> object:
    return {word: {word}}


def give_what_does_not_fit(word: str) -> int:
    return word  # type: ignore[return-value]


def give_too_much(word: str) -> str:
    return MAX_JSON_BYTES * word


def settle_and_raise(word: str) -> None:
    tenure.current().complete(word)
    tenure.NewJob("work", {"word": {word}}).record("a")


def snooze(word: str) -> tenure.Snooze:
    return tenure.Snooze(3600 + len(word))


def be_cancelled(word: str) -> str:
    tenure.current().cancel()
    return word


def lose_the_claim(word: str) -> str:
    tenure.current()._holder.store.reap(worker=tenure.current().job.worker)
    return word


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (complete, {"word": SECRET}),
        (complete, {"word": SECRET, SECRET: SECRET}),
        (complete, {SECRET: SECRET}),
        (raise_an_error, {"word": SECRET}),
        (take_a_number, {"word": SECRET}),
        (give_what_is_no_json, {"word": SECRET}),
        (give_what_does_not_fit, {"word": SECRET}),
        (give_too_much, {"word": SECRET}),
        (settle_and_raise, {"word": SECRET}),
        (snooze, {"word": SECRET}),
        (be_cancelled, {"word": SECRET}),
        (lose_the_claim, {"word": SECRET}),
    ],
)
def test_nothing_of_a_payload_or_a_result_is_logged_whatever_becomes_of_the_job(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, function: Callable[[str], Any], payload: dict[str, str]
) -> None:
    jobs.task("work")(function)
    id = jobs.enqueue("work", payload, max_attempts=2)

    jobs.work(drain=True)

    assert [each for each in caplog.records if id in each.getMessage()] != []
    shown = (HumanFormatter(is_coloured=False), JSONFormatter())
    assert [each.getMessage() for each in caplog.records if any(SECRET in line.format(each) for line in shown)] == []
