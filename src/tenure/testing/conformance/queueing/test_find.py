"""Finding jobs by what they were enqueued with."""

import pytest

from tenure.backends.protocol import SCAN, Backend
from tenure.core.operations import Move, Query
from tenure.testing.conformance.building import entry, ids_of

CONDITIONS = {
    "queue": ({"queues": ("x",)}, ["2", "1"]),
    "several queues": ({"queues": ("x", "y")}, ["3", "2", "1"]),
    "type": ({"types": ("b",)}, ["3", "2"]),
    "queue and type": ({"queues": ("x",), "types": ("b",)}, ["2"]),
    "key": ({"key": "k"}, ["3"]),
    "a queue that is not there": ({"queues": ("nobody",)}, []),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_jobs_are_found_by_queue_type_and_key(store: Backend, name: str) -> None:
    store.enqueue(
        [entry("a", id="1", queue="x"), entry("b", id="2", queue="x"), entry("b", id="3", queue="y", key="k")]
    )
    conditions, expected = CONDITIONS[name]

    assert ids_of(store.find(Query(**conditions)).jobs) == expected  # type: ignore[arg-type]


def test_one_call_looks_at_a_bounded_number_of_jobs_and_the_next_goes_on(store: Backend) -> None:
    store.enqueue([entry(id="needle", queue="other")])
    store.enqueue([entry() for _ in range(SCAN)])

    page = store.find(Query(queues=("other",)))
    found = page.jobs
    while page.cursor is not None:
        page = store.find(Query(queues=("other",), cursor=page.cursor))
        found += page.jobs

    assert ids_of(found) == ["needle"]


def test_jobs_that_come_and_go_between_pages_appear_at_most_once(store: Backend) -> None:
    store.enqueue([entry(id=str(n)) for n in range(6)])
    first = store.find(Query(limit=3))
    store.enqueue([entry(id="new")])
    store.move(["5", "2"], Move.CANCEL)
    store.delete(["5", "2"])
    second = store.find(Query(limit=3, cursor=first.cursor))

    assert ids_of(first.jobs) == ["5", "4", "3"]
    assert ids_of(second.jobs) == ["1", "0"]
