"""Payloads come back unchanged, and are not shared between callers."""

from collections.abc import Mapping
from typing import Any

from tenure.backends.protocol import Backend
from tenure.core.job import State
from tenure.core.operations import Query
from tenure.core.payload import encode_payload
from tenure.testing.conformance.building import (
    FEWEST_DIGITS,
    build_completion,
    build_failure,
    build_record,
    ids_of,
    job_of,
    limit_of_digits,
    request,
    settle,
    settle_each,
    take,
    take_each,
    take_one,
)

PAYLOADS: dict[str, dict[str, Any]] = {
    "empty": {},
    "nested": {"a": {"b": [1, [2, {"c": None}]]}},
    "numbers": {"zero": 0, "negative": -7, "float": 0.1, "tiny": 5e-324, "beyond 64 bits": 2**80, "whole": 1.0},
    "truth": {"yes": True, "no": False, "none": None},
    "empty key": {"": ""},
    "many scripts": {"grüße": "日本語 🎉 \u202e", "quotes": "\"'`\\/"},
    "control characters": {"text": "tab\tline\nreturn\rbell\x07delete\x7f"},
    "text that looks like an escape": {"text": "\\u0000 \\ud800"},
    "text that looks like code": {"x": "'; drop table jobs; --", "y": "${1} %s {} \x1f"},
    "large": {"text": "x" * 250_000},
}
UNREADABLE: dict[str, dict[str, Any]] = {
    "before": {"text": 'a "[quoted\\\\" ,text]'},
    "long": {"list": [{"n": 10**FEWEST_DIGITS}], "text": "],[\\"},
    "behind": {"list": [1, {}]},
}
"""Payloads, of which Python cannot read one while its limit is `FEWEST_DIGITS`."""
UNREADABLE_FOUND = {**UNREADABLE, "long": encode_payload(UNREADABLE["long"])}
NAMES = ["with space", "ümläut", "a:b{c}/d", "'; drop table jobs; --", "%", "_", "x" * 200]


def shown(values: Mapping[str, object]) -> dict[str, str]:
    """Return the `repr` of each value: True, 1 and 1.0 are equal, but must not be mixed up."""
    return {name: repr(value) for name, value in values.items()}


def test_a_payload_comes_back_as_it_went_in(store: Backend) -> None:
    for name, payload in PAYLOADS.items():
        store.enqueue([build_record(id=name, payload=payload)])

    found = {name: each.job.payload for name, each in take_each(store, PAYLOADS).items()}

    assert found == PAYLOADS
    assert shown(found) == shown(PAYLOADS)


def test_a_result_comes_back_as_it_went_in(store: Backend) -> None:
    store.enqueue([build_record(id=name) for name in PAYLOADS])
    settle_each(
        store, {name: build_completion(each, PAYLOADS[name]) for name, each in take_each(store, PAYLOADS).items()}
    )

    found = {name: job_of(store, name).result for name in PAYLOADS}

    assert found == PAYLOADS
    assert shown(found) == shown(PAYLOADS)


def test_the_order_of_keys_is_kept(store: Backend) -> None:
    store.enqueue([build_record(id="a", payload={"z": 1, "a": 2, "m": 3})])

    assert list(take_one(store).job.payload) == ["z", "a", "m"]


def test_changing_the_dict_after_enqueueing_changes_nothing(store: Backend) -> None:
    payload = {"list": [1]}
    store.enqueue([build_record(id="a", payload=payload)])
    payload["list"].append(2)

    assert job_of(store, "a").payload == {"list": [1]}


def test_changing_what_was_claimed_changes_nothing(store: Backend) -> None:
    store.enqueue([build_record(id="a", payload={"list": [1]}, meta={"label": "x"})])
    job = take_one(store).job
    job.payload["list"].append(2)
    job.meta["label"] = "y"

    assert job_of(store, "a").payload == {"list": [1]}
    assert job_of(store, "a").meta == {"label": "x"}


def test_names_that_differ_in_case_are_different(store: Backend) -> None:
    answers = store.enqueue(
        [
            build_record(id="a", queue="q", key="k"),
            build_record(id="A", queue="q", key="K"),
            build_record(id="b", queue="Q", key="k"),
        ]
    )

    assert [each.created for each in answers] == [True] * 3
    assert ids_of(take(store, limit=9, queues=("q",))) == ["a", "A"]


def test_names_may_be_any_printable_text(store: Backend) -> None:
    store.enqueue([build_record(name, id=name, queue=name, key=name) for name in NAMES])

    jobs = {name: take_one(store, queues=(name,), types=(name,), worker=name).job for name in NAMES}

    assert {name: (job.id, job.type, job.queue, job.key, job.worker) for name, job in jobs.items()} == {
        name: (name,) * 5 for name in NAMES
    }


def test_a_payload_that_python_cannot_read_is_claimed_as_text_beside_its_neighbours(store: Backend) -> None:
    store.enqueue([build_record(id=name, payload=payload) for name, payload in UNREADABLE.items()])
    claim = request(limit=9)

    with limit_of_digits(FEWEST_DIGITS):
        claimed = store.claim(claim).jobs
        claimed_again = store.claim(claim).jobs

    assert {each.id: each.payload for each in claimed} == UNREADABLE_FOUND
    assert claimed_again == claimed


def test_a_payload_that_python_cannot_read_is_found_as_text_beside_its_neighbours(store: Backend) -> None:
    store.enqueue([build_record(id=name, payload=payload) for name, payload in UNREADABLE.items()])

    with limit_of_digits(FEWEST_DIGITS):
        found = store.find(Query()).jobs
        outlook = store.explain("long", None, None)

    assert {each.id: each.payload for each in found} == UNREADABLE_FOUND
    assert outlook is not None
    assert outlook.job.payload == UNREADABLE_FOUND["long"]


def test_a_job_whose_payload_python_cannot_read_is_settled(store: Backend) -> None:
    store.enqueue([build_record(id="long", payload=UNREADABLE["long"])])

    with limit_of_digits(FEWEST_DIGITS):
        settled = settle(store, build_failure(take_one(store), final=True))
        found = job_of(store, "long")

    assert settled
    assert (found.state, found.payload) == (State.FAILED, UNREADABLE_FOUND["long"])
