"""`queue.assert_enqueued()` finds matching jobs; its error lists the jobs that were enqueued."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY

import pytest

import tenure
from tenure.testing import TestQueue
from tenure.testing.job_matcher import AnyTask

jobs = tenure.Jobs("memory://")


@dataclass(frozen=True)
class Letter:
    to: str
    lines: list[str]


@jobs.task
def send(letter: Letter, at: datetime, copies: int = 1, queue: Any = None) -> None: ...


@jobs.task(queue="images", timeout=30)
def resize(image: int) -> None: ...


LETTER = Letter("ada", ["hello"])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def queue() -> Iterator[TestQueue]:
    with jobs.testing() as queue:
        yield queue


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"letter": LETTER},
        {"at": NOON, "letter": LETTER},
        {"at": NOON.astimezone()},
        {"at": ANY},
        {"copies": 1},
        {"queue": (1, 2)},
        {"queue": [1, 2], "copies": 1},
    ],
)
def test_arguments_are_compared_by_name_as_the_task_gets_or_writes_them(
    queue: TestQueue, arguments: dict[str, Any]
) -> None:
    send.enqueue(LETTER, NOON, queue=[1, 2])

    queue.assert_enqueued(send, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"letter": Letter("bob", ["hello"])},
        {"at": NOON, "letter": Letter("bob", [])},
        {"at": "noon"},
        {"copies": 2},
        {"queue": object()},
    ],
)
def test_an_argument_that_is_otherwise_is_told(queue: TestQueue, arguments: dict[str, Any]) -> None:
    send.enqueue(LETTER, NOON)

    with pytest.raises(AssertionError, match=r"send\(.*\) was not enqueued; found:\n  send\(letter="):
        queue.assert_enqueued(send, **arguments)


@pytest.mark.parametrize("named", [resize, "resize", resize.aio, resize.using(), resize.aio.using()])
def test_a_task_is_named_in_any_way(queue: TestQueue, named: AnyTask) -> None:
    resize.enqueue(7)

    queue.assert_enqueued(named, image=7)
    with pytest.raises(AssertionError):
        queue.assert_enqueued(named, image=8)


def test_jobs_without_a_task_are_compared_as_json(queue: TestQueue) -> None:
    jobs.enqueue("foreign", {"a": [1, 2], "b": None})

    queue.assert_enqueued("foreign", a=(1, 2), b=None)
    assert queue.enqueued("foreign", c=None) == []


def test_a_job_counts_whatever_became_of_it(queue: TestQueue) -> None:
    resize.enqueue(7)
    queue.drain()

    queue.assert_enqueued(resize, image=7)


@pytest.mark.parametrize(
    "options",
    [
        {"queue": "mail"},
        {"queue": "mail", "priority": 3},
        {"queue": "mail", "delay": timedelta(minutes=1)},
        {"queue": "mail", "key": "k", "meta": {"a": "b"}, "id": "mine", "on_conflict": "raise"},
        {"queue": "mail", "run_at": NOON, "max_attempts": None, "timeout": timedelta(seconds=1)},
    ],
)
def test_the_options_of_a_task_are_compared_if_some_are_given(queue: TestQueue, options: Any) -> None:
    resize.using(**options).enqueue(7)

    queue.assert_enqueued(resize)
    queue.assert_enqueued(resize.using(**options), image=7)
    assert queue.enqueued(resize.using(queue="other")) == []
    assert queue.enqueued(resize.using(**{**options, "max_crashes": 9})) == []


def test_an_option_that_is_otherwise_is_told(queue: TestQueue) -> None:
    resize.using(priority=3).enqueue(7)

    with pytest.raises(AssertionError, match=r"\n  resize\(image=7\) with queue='images', priority=3$"):
        queue.assert_enqueued(resize.using(queue="mail"))


def test_the_nearest_misses_are_told_first_and_not_too_many(queue: TestQueue) -> None:
    for n in range(7):
        send.enqueue(LETTER, NOON, copies=n)
    send.enqueue(Letter("bob", []), NOON)

    with pytest.raises(AssertionError) as caught:
        queue.assert_enqueued(send, letter=Letter("bob", []), copies=9)

    lines = str(caught.value).splitlines()
    assert lines[0] == "send(letter=Letter(to='bob', lines=[]), copies=9) was not enqueued; found:"
    assert lines[1].startswith("  send(letter={'to': 'bob'")
    assert lines[-1] == "  and 3 more"


def test_without_a_job_of_the_type_the_others_are_told(queue: TestQueue) -> None:
    with pytest.raises(AssertionError, match=r"^resize\(\) was not enqueued; no job was enqueued$"):
        queue.assert_enqueued(resize)

    jobs.enqueue("foreign")
    with pytest.raises(AssertionError, match=r"; only jobs of type 'foreign' were enqueued$"):
        queue.assert_enqueued(resize)


def test_an_argument_that_the_task_does_not_have_is_refused(queue: TestQueue) -> None:
    with pytest.raises(tenure.ConfigurationError, match=r"has no argument 'imgae'; did you mean 'image'\?"):
        queue.enqueued(resize, imgae=7)


def test_a_payload_that_does_not_fit_the_task_is_found_by_its_type_alone(queue: TestQueue) -> None:
    jobs.enqueue("resize", {"image": 7, "old": 1})

    queue.assert_enqueued(resize)
    assert queue.enqueued(resize, image=7) == []


def test_what_is_no_task_is_refused(queue: TestQueue) -> None:
    with pytest.raises(tenure.ConfigurationError, match="pass a task or its type, not 7"):
        queue.assert_enqueued(7)  # type: ignore[arg-type]


def test_nothing_enqueued_is_asserted_of_all_or_of_one_task(queue: TestQueue) -> None:
    queue.assert_nothing_enqueued()
    resize.enqueue(7)
    queue.assert_nothing_enqueued(send)

    for named in ([], [resize]):
        with pytest.raises(AssertionError, match=r"expected no enqueued jobs, found:\n  resize\(image=7\)$"):
            queue.assert_nothing_enqueued(*named)
