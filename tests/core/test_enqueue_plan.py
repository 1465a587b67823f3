"""Which jobs of an enqueue request are new."""

import pytest

from tenure.core.enqueue_plan import plan_enqueue
from tenure.core.job import JobRecord, NewJob, OnConflict
from tenure.errors import KeyTaken


def entry(id: str, key: str | None = None, on_conflict: OnConflict = "keep", queue: str = "default") -> JobRecord:
    return NewJob("work", key=key, on_conflict=on_conflict, queue=queue).record(id)


def nobody(queue: str, key: str) -> None:  # noqa: ARG001 - it holds none
    return None


def held_by_old(queue: str, key: str) -> str | None:
    return "old" if (queue, key) == ("default", "k") else None


def test_what_is_not_stored_is_new() -> None:
    new, answers = plan_enqueue([entry("a"), entry("b")], set(), nobody)

    assert [each.id for each in new] == ["a", "b"]
    assert [(each.id, each.created) for each in answers] == [("a", True), ("b", True)]


def test_the_same_id_is_the_same_job_stored_or_named_before() -> None:
    new, answers = plan_enqueue([entry("a"), entry("b"), entry("b")], {"a"}, nobody)

    assert [each.id for each in new] == ["b"]
    assert [each.created for each in answers] == [False, True, False]


def test_a_key_is_the_job_that_has_it_stored_or_named_before() -> None:
    new, answers = plan_enqueue(
        [entry("a", "k"), entry("b", "j"), entry("c", "j"), entry("d", "k", queue="other")], set(), held_by_old
    )

    assert [each.id for each in new] == ["b", "d"]
    assert [each.id for each in answers] == ["old", "b", "b", "d"]


@pytest.mark.parametrize("key", ["k", "j"])
def test_a_key_that_must_be_free_and_is_not_refuses_them_all(key: str) -> None:
    with pytest.raises(KeyTaken, match="is taken by the live job"):
        plan_enqueue([entry("a", "j"), entry("b", key, "raise")], set(), held_by_old)
