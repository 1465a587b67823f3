"""Finding jobs by their options."""

from tenure.backends.protocol import SCAN, Backend
from tenure.core.operations import Move, Query
from tenure.testing.conformance.building import build_record, ids_of

CONDITIONS = {
    "queue": (Query(queues=("x",)), ["2", "1"]),
    "several queues": (Query(queues=("x", "y")), ["3", "2", "1"]),
    "type": (Query(types=("b",)), ["3", "2"]),
    "queue and type": (Query(queues=("x",), types=("b",)), ["2"]),
    "key": (Query(key="k"), ["3"]),
    "a queue that is not there": (Query(queues=("nobody",)), []),
}


def test_jobs_are_found_by_queue_type_and_key(store: Backend) -> None:
    store.enqueue(
        [
            build_record("a", id="1", queue="x"),
            build_record("b", id="2", queue="x"),
            build_record("b", id="3", queue="y", key="k"),
        ]
    )

    found = {name: ids_of(store.find(query).jobs) for name, (query, _) in CONDITIONS.items()}

    assert found == {name: ids for name, (_, ids) in CONDITIONS.items()}


def test_one_call_looks_at_a_bounded_number_of_jobs_and_the_next_goes_on(store: Backend) -> None:
    store.enqueue([build_record(id="needle", queue="other")])
    store.enqueue([build_record() for _ in range(SCAN)])

    page = store.find(Query(queues=("other",)))
    found = page.jobs
    while page.cursor is not None:
        page = store.find(Query(queues=("other",), cursor=page.cursor))
        found += page.jobs

    assert ids_of(found) == ["needle"]


def test_jobs_that_come_and_go_between_pages_appear_at_most_once(store: Backend) -> None:
    store.enqueue([build_record(id=str(n)) for n in range(6)])
    first = store.find(Query(limit=3))
    store.enqueue([build_record(id="new")])
    store.move(["5", "2"], Move.CANCEL)
    store.delete(["5", "2"])
    second = store.find(Query(limit=3, cursor=first.cursor))

    assert ids_of(first.jobs) == ["5", "4", "3"]
    assert ids_of(second.jobs) == ["1", "0"]
