"""Large batches of completions run beside the claim of the same request, where neither can see the other."""

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.backend import CONCURRENT_SETTLE_MINIMUM
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    Taken,
    as_taken,
    build_completion,
    build_record,
    build_release,
    ids_of,
    request,
)
from tenure.testing.conformance.racing import run_concurrently
from tests.postgres.stores import Place

BATCH = 2 * CONCURRENT_SETTLE_MINIMUM


def batch(store: PostgreSQL, hint: object = None, **options: float) -> tuple[list[Taken], object]:
    asked = request(limit=BATCH, hint=hint, **options)
    claimed = store.claim(asked)
    return [as_taken(job, asked) for job in claimed.jobs], claimed.hint


def test_with_a_hint_completions_and_claim_are_two_transactions_and_all_of_it_happens(
    place: Place, store: PostgreSQL
) -> None:
    ids = [each.id for each in store.enqueue([build_record() for _ in range(3 * BATCH)])]
    taken, hint = batch(store)

    landed, claimed = store.exchange([build_completion(each) for each in taken], request(limit=BATCH, hint=hint))

    assert all(landed)
    assert ids_of(claimed.jobs) == ids[BATCH : 2 * BATCH]
    assert len(place.execute("select distinct xmin::text from S.finished")) == 1
    assert place.execute("select xmin::text from S.finished intersect select xmin::text from S.jobs") == []


def test_without_a_hint_or_with_other_endings_it_is_one_transaction(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record() for _ in range(4 * BATCH)])
    first, hint = batch(store)
    second, _ = batch(store)

    store.exchange([build_completion(each) for each in first], request(limit=BATCH))
    exact = place.execute("select xmin::text from S.finished intersect select xmin::text from S.jobs")
    given_back = [build_completion(each) for each in second[1:]] + [build_release(second[0])]
    _, claimed = store.exchange(given_back, request(limit=BATCH, hint=hint))

    both = place.execute("select xmin::text from S.finished intersect select xmin::text from S.jobs")
    assert (len(exact), len(both)) == (1, 2)
    assert len(claimed.jobs) == BATCH


def test_a_lease_that_ran_out_is_completed_and_not_taken_back_by_the_claim_that_comes_with_it(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    store.enqueue([build_record() for _ in range(3 * BATCH)])
    taken, hint = batch(store, lease=1.0)
    clock.advance(2)

    landed, _ = store.exchange([build_completion(each) for each in taken], request(limit=BATCH, hint=hint))

    assert all(landed)
    assert store.stats().total("completed") == BATCH
    store.close()


def test_sent_again_it_changes_nothing_twice(store: PostgreSQL) -> None:
    store.enqueue([build_record() for _ in range(3 * BATCH)])
    taken, hint = batch(store)
    settlements, asked = [build_completion(each) for each in taken], request(limit=BATCH, hint=hint)

    first = store.exchange(settlements, asked)
    again = store.exchange(settlements, asked)

    assert again == first
    assert store.stats().total("completed") == store.stats().total("running") == BATCH


def test_many_who_do_so_with_few_connections_do_not_wait_for_each_other(place: Place) -> None:
    store = place.open("&connections=2&timeout=60")
    store.enqueue([build_record() for _ in range(9 * BATCH)])
    batches = [batch(store) for _ in range(4)]

    def exchange(number: int) -> bool:
        taken, hint = batches[number]
        landed, _ = store.exchange([build_completion(each) for each in taken], request(limit=BATCH, hint=hint))
        return all(landed)

    assert run_concurrently([lambda number=number: exchange(number) for number in range(4)]) == [True] * 4  # type: ignore[misc]
    store.close()
