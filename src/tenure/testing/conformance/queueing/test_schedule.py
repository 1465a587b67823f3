"""Each slot of a schedule is enqueued once."""

from collections import Counter
from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

from tenure.backends.protocol import Backend
from tenure.core.operations import LARGEST_BATCH, Purge, Query, Scheduled, Slot
from tenure.errors import ConfigurationError, KeyTaken
from tenure.testing import Clock, Harness
from tenure.testing.conformance.building import build_completion, build_record, ids_of, job_of, settle, take, take_one
from tenure.testing.conformance.racing import run_concurrently

WORKERS = 10
ROUNDS = 20


def slots_after(moment: datetime, number: int) -> list[Slot]:
    """Return slots a minute apart, with different jobs."""
    return [Slot(at=moment + timedelta(minutes=n + 1), record=build_record()) for n in range(number)]


def begin(store: Backend, name: str = "hourly") -> datetime:
    return store.schedule(name, []).last_at


def stored(store: Backend) -> list[str]:
    return ids_of(store.find(Query(newest_first=False, limit=1_000)).jobs)


def test_a_schedule_that_was_never_seen_begins_now(store: Backend, clock: Clock) -> None:
    past = [Slot(at=clock.now - timedelta(hours=1), record=build_record()), Slot(at=clock.now, record=build_record())]

    answer = store.schedule("hourly", past)

    assert answer == Scheduled(now=clock.now, last_at=clock.now, ids=[])
    assert stored(store) == []


def test_a_schedule_that_was_never_seen_has_begun_when_its_last_slot_was_asked_for(
    store: Backend, clock: Clock
) -> None:
    begun_at = begin(store)
    clock.advance(3600)

    assert begun_at == clock.now - timedelta(hours=1)
    assert begin(store) == begun_at


def test_slots_later_than_the_last_are_enqueued_and_the_latest_of_them_is_the_last(
    store: Backend, clock: Clock
) -> None:
    begun_at = begin(store)
    clock.advance(3600)
    slots = slots_after(begun_at, 3)

    answer = store.schedule("hourly", slots)

    assert answer == Scheduled(now=clock.now, last_at=slots[-1].at, ids=[each.record.id for each in slots])
    assert stored(store) == answer.ids
    assert begin(store) == slots[-1].at


def test_slots_are_given_out_the_earliest_first_whatever_the_order_given(store: Backend, clock: Clock) -> None:
    first, second, third = slots_after(begin(store), 3)

    answer = store.schedule("hourly", [third, first, second])

    assert answer == Scheduled(
        now=clock.now, last_at=third.at, ids=[first.record.id, second.record.id, third.record.id]
    )
    assert stored(store) == answer.ids


def test_a_slot_that_was_given_out_is_passed_over(store: Backend, clock: Clock) -> None:
    first, second, third = slots_after(begin(store), 3)
    store.schedule("hourly", [first, second])

    again = [Slot(at=each.at, record=build_record()) for each in (first, second)]
    answer = store.schedule("hourly", [*again, third])

    assert answer == Scheduled(now=clock.now, last_at=third.at, ids=[third.record.id])
    assert stored(store) == [first.record.id, second.record.id, third.record.id]


def test_a_slot_before_the_last_is_passed_over_even_if_nobody_gave_it_out(store: Backend, clock: Clock) -> None:
    first, second = slots_after(begin(store), 2)
    store.schedule("hourly", [second])

    assert store.schedule("hourly", [first]) == Scheduled(now=clock.now, last_at=second.at, ids=[])


def test_of_two_slots_at_one_moment_the_first_is_given_out(store: Backend, clock: Clock) -> None:
    (first,) = slots_after(begin(store), 1)

    answer = store.schedule("hourly", [first, Slot(at=first.at, record=build_record())])

    assert answer == Scheduled(now=clock.now, last_at=first.at, ids=[first.record.id])


def test_the_same_moment_in_another_time_zone_is_the_same_slot(store: Backend, clock: Clock) -> None:
    (first,) = slots_after(begin(store), 1)
    store.schedule("hourly", [first])

    elsewhere = Slot(at=first.at.astimezone(timezone(timedelta(hours=5))), record=build_record())

    assert store.schedule("hourly", [elsewhere]) == Scheduled(now=clock.now, last_at=first.at, ids=[])


def test_slots_are_told_apart_to_the_microsecond(store: Backend) -> None:
    begun_at = begin(store)
    near = [Slot(at=begun_at + timedelta(microseconds=n), record=build_record()) for n in range(3)]

    assert len(store.schedule("hourly", near).ids) == 2


def test_schedules_do_not_know_of_each_other(store: Backend) -> None:
    begin(store, "daily")
    slots = slots_after(begin(store, "hourly"), 2)
    store.schedule("hourly", slots)

    others = [Slot(at=each.at, record=build_record()) for each in slots]

    assert len(store.schedule("daily", others).ids) == 2


def test_a_slot_does_not_come_again_when_its_job_is_purged(store: Backend, clock: Clock) -> None:
    (first,) = slots_after(begin(store), 1)
    store.schedule("hourly", [first])
    settle(store, build_completion(take_one(store)))
    store.purge(Purge(older_than=0))

    answer = store.schedule("hourly", [first])

    assert answer == Scheduled(now=clock.now, last_at=first.at, ids=[])
    assert stored(store) == []


def test_the_last_slot_never_falls_when_the_clock_is_set_back(store: Backend, clock: Clock) -> None:
    slots = slots_after(begin(store), 2)
    store.schedule("hourly", slots)
    clock.advance(-7200)

    again = [Slot(at=each.at, record=build_record()) for each in slots]

    assert store.schedule("hourly", again) == Scheduled(now=clock.now, last_at=slots[-1].at, ids=[])
    assert begin(store) == slots[-1].at


def test_the_job_of_a_slot_is_stored_as_any_other_and_can_be_claimed(store: Backend, clock: Clock) -> None:
    at = begin(store) + timedelta(minutes=1)
    given = build_record("report", id="r1", queue="reports", priority=3, run_at=at)
    store.schedule("hourly", [Slot(at=at, record=given)])
    too_early = take(store)
    clock.advance(60)

    taken = take_one(store)

    assert too_early == []
    assert (taken.id, taken.job.type, taken.job.queue, taken.job.priority) == ("r1", "report", "reports", 3)
    assert taken.job.run_at == at


def test_a_slot_whose_key_is_taken_answers_the_job_that_has_it(store: Backend, clock: Clock) -> None:
    begun_at = begin(store)
    store.enqueue([build_record(id="a", key="k")])
    slots = [Slot(at=begun_at + timedelta(minutes=n), record=build_record(key="k")) for n in (1, 2)]

    answer = store.schedule("hourly", slots)

    assert answer == Scheduled(now=clock.now, last_at=slots[-1].at, ids=["a", "a"])
    assert stored(store) == ["a"]


def test_a_slot_whose_id_is_stored_is_that_job(store: Backend) -> None:
    begun_at = begin(store)
    store.enqueue([build_record("first", id="a")])

    answer = store.schedule("hourly", [Slot(at=begun_at + timedelta(minutes=1), record=build_record("second", id="a"))])

    assert answer.ids == ["a"]
    assert job_of(store, "a").type == "first"


def test_a_key_that_must_not_be_taken_refuses_all_slots_and_the_last_stays(store: Backend) -> None:
    begun_at = begin(store)
    store.enqueue([build_record(id="a", key="k")])
    slots = slots_after(begun_at, 2)
    refused = Slot(at=slots[-1].at + timedelta(minutes=1), record=build_record(key="k", on_conflict="raise"))

    with pytest.raises(KeyTaken):
        store.schedule("hourly", [*slots, refused])

    assert begin(store) == begun_at
    assert stored(store) == ["a"]


def test_a_schedule_that_is_refused_has_not_begun(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(key="k")])
    refused = Slot(at=clock.now + timedelta(minutes=1), record=build_record(key="k", on_conflict="raise"))
    with pytest.raises(KeyTaken):
        store.schedule("hourly", [refused])
    clock.advance(3600)

    assert begin(store) == clock.now


def test_a_slot_that_was_passed_over_takes_no_key(store: Backend, clock: Clock) -> None:
    (first,) = slots_after(begin(store), 1)
    store.schedule("hourly", [first])
    store.enqueue([build_record(key="k")])

    late = Slot(at=first.at, record=build_record(key="k", on_conflict="raise"))

    assert store.schedule("hourly", [late]) == Scheduled(now=clock.now, last_at=first.at, ids=[])


def test_more_slots_than_a_request_takes_are_refused(store: Backend) -> None:
    slots = slots_after(begin(store), LARGEST_BATCH + 1)

    with pytest.raises(ConfigurationError, match="the number of slots must be 0 to 1,000, not 1001"):
        store.schedule("hourly", slots)

    assert len(store.schedule("hourly", slots[:LARGEST_BATCH]).ids) == LARGEST_BATCH


def test_a_schedule_with_a_name_that_cannot_be_kept_is_refused(store: Backend) -> None:
    with pytest.raises(ConfigurationError, match="the name of a schedule must have 1 to 200 characters"):
        store.schedule("", [])


def test_of_ten_workers_with_the_same_slots_one_gives_each_out(harness: Harness) -> None:
    stores = [harness.open() for _ in range(WORKERS)]
    last_at = begin(stores[0])

    for _ in range(ROUNDS):
        offers = [slots_after(last_at, 3) for _ in stores]
        answers = run_concurrently(
            [partial(store.schedule, "hourly", offer) for store, offer in zip(stores, offers, strict=True)]
        )
        last_at = offers[0][-1].at

        assert [each.last_at for each in answers] == [last_at] * WORKERS
        assert sorted(len(each.ids) for each in answers) == [0] * (WORKERS - 1) + [3]

    assert stores[0].stats().total("due") == ROUNDS * 3


def test_of_ten_workers_that_know_different_slots_none_is_given_out_twice(harness: Harness) -> None:
    stores = [harness.open() for _ in range(WORKERS)]
    begun_at = begin(stores[0])
    offers = [slots_after(begun_at, n + 1) for n in range(WORKERS)]

    answers = run_concurrently(
        [partial(store.schedule, "hourly", offer) for store, offer in zip(stores, offers, strict=True)]
    )

    moments = {each.record.id: each.at for offer in offers for each in offer}
    given_out = Counter(moments[id] for each in answers for id in each.ids)
    assert given_out == Counter(each.at for each in offers[-1])


def test_of_ten_workers_that_begin_a_schedule_all_are_told_the_same_moment(harness: Harness) -> None:
    stores = [harness.open() for _ in range(WORKERS)]

    for round in range(ROUNDS):
        answers = run_concurrently([partial(store.schedule, f"schedule-{round}", []) for store in stores])

        assert len({each.last_at for each in answers}) == 1
