"""Which waiter polls and when, and how notifications wake waiters."""

import threading
import time
from collections.abc import Collection, Iterator

import pytest

from tenure.backends.postgres.notifier import (
    LONGEST_CHANNEL,
    LONGEST_PAYLOAD,
    Notification,
    Notifier,
    channel_of,
    parse_notification,
)
from tenure.backends.shared import waiter
from tenure.backends.shared.waiter import MOST_GROUPS, WAKE_SPREAD, WaitGroup, WaitGroups
from tenure.core.operations import Claimed
from tenure.errors import StoreUnavailable
from tenure.testing.conformance.building import request

LONG = 120.0
HOUR = 3600.0
PAUSES = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
NOW = 0.0
"""A wait whose timeout has passed: it polls only if a poll is due."""


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable polling by time."""
    monkeypatch.setattr(waiter, "SHORTEST_POLL", HOUR)
    monkeypatch.setattr(waiter, "LONGEST_POLL", HOUR)


@pytest.fixture
def all_watches() -> WaitGroups:
    return WaitGroups()


@pytest.fixture
def watch(all_watches: WaitGroups) -> WaitGroup:
    """A wait group that has polled once and found nothing."""
    watch = all_watches.group_for(["mail"], ["send"])
    watch.wait_to_poll(NOW)
    watch.record_nothing_found(None, is_notified_in_time=True)
    return watch


class Sent:
    """The notifications sent by a notifier; the first is held up."""

    def __init__(self) -> None:
        self.rings: list[Collection[str] | None] = []
        self.is_held = threading.Event()
        self.may_go = threading.Event()

    def send(self, queues: frozenset[str] | None) -> None:
        self.rings.append(queues)
        self.is_held.set()
        self.may_go.wait(LONG)


@pytest.fixture
def sent() -> Iterator[Sent]:
    sent = Sent()
    yield sent
    sent.may_go.set()


def test_the_first_who_waits_looks_at_once(all_watches: WaitGroups) -> None:
    assert all_watches.group_for(["mail"], ["send"]).wait_to_poll(NOW)


def test_while_one_looks_no_other_does(all_watches: WaitGroups) -> None:
    all_watches.group_for(None, None).wait_to_poll(NOW)

    assert not all_watches.group_for(None, None).wait_to_poll(NOW)


def test_a_call_between_two_waits_is_not_lost(all_watches: WaitGroups, watch: WaitGroup) -> None:
    assert not watch.wait_to_poll(NOW)

    all_watches.wake({"mail"})

    assert watch.wait_to_poll(NOW)


def test_a_call_during_a_look_is_not_lost(watch: WaitGroup) -> None:
    watch.wake(0.0)
    watch.wait_to_poll(NOW)

    watch.wake(0.0)
    watch.record_nothing_found(None, is_notified_in_time=True)

    assert watch.wait_to_poll(NOW)


def test_a_call_for_another_queue_is_not_heard(all_watches: WaitGroups, watch: WaitGroup) -> None:
    all_watches.wake({"post", "letters"})

    assert not watch.wait_to_poll(NOW)


def test_a_call_for_any_queue_is_heard(all_watches: WaitGroups, watch: WaitGroup) -> None:
    all_watches.wake(None)

    assert watch.wait_to_poll(NOW)


def test_a_call_wakes_one_of_those_who_wait_for_the_same(watch: WaitGroup) -> None:
    looked: list[None] = []

    def wait() -> None:
        if watch.wait_to_poll(time.monotonic() + LONG):
            looked.append(None)
            watch.record_nothing_found(None, is_notified_in_time=True)

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for each in waiting:
        each.start()
    watch.wake(0.0)
    while not looked:
        waiting[0].join(0.001)

    assert len(looked) == 1
    watch.close()
    for each in waiting:
        each.join()
    assert len(looked) == 1


def test_when_something_was_found_the_next_looks_soon(watch: WaitGroup) -> None:
    watch.wake(0.0)
    watch.wait_to_poll(NOW)

    watch.record_found()

    assert watch.wait_to_poll(time.monotonic() + LONG)


class FakeTime:
    """The time of the wait groups. It stands still until a test changes it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake_time = FakeTime()
    monkeypatch.setattr(waiter, "time", fake_time)
    return fake_time


def claim_in_vain(watch: WaitGroup, fake_time: FakeTime) -> float:
    """Let a poll find a job that no claim gets; return the seconds until the next poll."""
    fake_time.now = max(fake_time.now, watch._poll_at)
    watch.wait_to_poll(NOW)
    watch.record_found()
    watch.record_claim(has_jobs=False)
    return round(watch._poll_at - fake_time.now, 6)


def test_a_job_that_no_claim_gets_is_polled_for_less_and_less_often_and_at_least_twice_a_second(
    all_watches: WaitGroups, fake_time: FakeTime
) -> None:
    watch = all_watches.group_for(None, None)

    assert [claim_in_vain(watch, fake_time) for _ in PAUSES] == PAUSES


def test_a_claim_that_gets_jobs_or_a_poll_that_finds_none_makes_the_next_pause_short(
    all_watches: WaitGroups, fake_time: FakeTime
) -> None:
    watch = all_watches.group_for(None, None)
    pauses = [claim_in_vain(watch, fake_time) for _ in range(2)]

    watch.record_claim(has_jobs=True)
    pauses += [claim_in_vain(watch, fake_time) for _ in range(2)]
    watch.record_nothing_found(0.0, is_notified_in_time=True)
    pauses += [claim_in_vain(watch, fake_time) for _ in range(2)]

    assert pauses == [*PAUSES[:2], *PAUSES[:2], *PAUSES[:2]]


def test_a_notification_ends_the_pause(all_watches: WaitGroups, fake_time: FakeTime) -> None:
    watch = all_watches.group_for(None, None)
    claim_in_vain(watch, fake_time)
    is_paused = not watch.wait_to_poll(NOW)

    watch.wake(0.0)

    assert is_paused
    assert watch.wait_to_poll(NOW)


@pytest.mark.usefixtures("fake_time")
def test_a_notification_during_a_claim_that_gets_nothing_is_not_lost(all_watches: WaitGroups) -> None:
    watch = all_watches.group_for(None, None)
    watch.wait_to_poll(NOW)
    watch.record_found()

    watch.wake(0.0)
    watch.record_claim(has_jobs=False)

    assert watch.wait_to_poll(NOW)


def test_a_claim_that_gets_jobs_ends_the_pause_of_those_who_wait(
    watch: WaitGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiter, "SHORTEST_PAUSE", HOUR)
    monkeypatch.setattr(waiter, "LONGEST_PAUSE", HOUR)
    watch.record_found()
    watch.record_claim(has_jobs=False)
    polls: list[bool] = []
    waiting = threading.Thread(target=lambda: polls.append(watch.wait_to_poll(time.monotonic() + HOUR)), daemon=True)
    waiting.start()
    while not watch._changed._waiters:  # type: ignore[attr-defined]
        waiting.join(0.001)

    watch.record_claim(has_jobs=True)

    waiting.join(LONG)
    assert polls == [True]


def test_claims_do_not_pause_the_polls_if_no_poll_found_a_job_for_them(
    all_watches: WaitGroups, fake_time: FakeTime
) -> None:
    watch = all_watches.group_for(None, None)

    watch.record_claim(has_jobs=False)
    is_polled_at_first = watch.wait_to_poll(NOW)
    watch.record_found()
    for _ in range(5):
        watch.record_claim(has_jobs=False)

    assert is_polled_at_first
    assert watch._poll_at == fake_time.now + PAUSES[0]


def test_a_claim_that_gets_nothing_brings_no_poll_forward(all_watches: WaitGroups, fake_time: FakeTime) -> None:
    watch = all_watches.group_for(None, None)
    watch.record_found()
    watch.record_nothing_found(60.0, is_notified_in_time=True)

    watch.record_claim(has_jobs=False)

    assert watch._poll_at == fake_time.now + 60.0


def test_a_claim_counts_for_those_who_wait_for_the_same_queues_and_types(
    all_watches: WaitGroups, fake_time: FakeTime
) -> None:
    watches = [all_watches.group_for(queues, ["send"]) for queues in (["mail"], ["post"])]
    for each in watches:
        each.record_found()

    all_watches.record_claim(request(queues=("mail",), types=("send",)), Claimed(jobs=[]))
    all_watches.record_claim(request(queues=("letters",), types=("send",)), Claimed(jobs=[]))

    assert [each._poll_at - fake_time.now for each in watches] == pytest.approx([PAUSES[0], WAKE_SPREAD])
    assert len(all_watches._all()) == 2


def test_a_claim_that_was_cut_causes_no_pause(all_watches: WaitGroups, fake_time: FakeTime) -> None:
    watch = all_watches.group_for(["mail"], ["send"])
    watch.record_found()

    all_watches.record_claim(request(queues=("mail",), types=("send",)), Claimed(jobs=[], is_cut=True))

    assert watch._poll_at - fake_time.now == pytest.approx(WAKE_SPREAD)


def test_what_is_due_at_a_known_moment_is_looked_for_then(watch: WaitGroup) -> None:
    watch.wake(0.0)
    watch.wait_to_poll(NOW)

    watch.record_nothing_found(0.001, is_notified_in_time=True)

    assert watch.wait_to_poll(time.monotonic() + LONG)


def test_who_may_have_missed_a_call_looks(
    all_watches: WaitGroups, watch: WaitGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiter, "SHORTEST_POLL", 0.001)

    all_watches.reset()

    assert watch.wait_to_poll(time.monotonic() + LONG)


def test_closing_ends_the_waits_that_are_and_those_that_come(all_watches: WaitGroups, watch: WaitGroup) -> None:
    waiting = threading.Thread(target=watch.wait_to_poll, args=(time.monotonic() + HOUR,), daemon=True)
    waiting.start()

    all_watches.close()

    waiting.join(LONG)
    assert not waiting.is_alive()
    assert not all_watches.group_for(["post"], None).wait_to_poll(time.monotonic() + HOUR)


def test_the_watches_that_were_used_last_are_kept(all_watches: WaitGroups, watch: WaitGroup) -> None:
    for number in range(MOST_GROUPS - 1):
        all_watches.group_for([f"queue-{number}"], None)
    all_watches.group_for(["mail"], ["send"])
    first = all_watches.group_for(["queue-1"], None)

    all_watches.group_for(["one more"], None)

    assert all_watches.group_for(["mail"], ["send"]) is watch
    assert all_watches.group_for(["queue-1"], None) is first


def test_what_is_marked_while_a_ring_is_sent_is_told_in_one(sent: Sent) -> None:
    ringer = Notifier(sent.send)
    ringer.notify(["mail"])
    sent.is_held.wait(LONG)

    ringer.notify(["post"])
    ringer.notify(["letters", "post"])
    sent.may_go.set()
    ringer.close()

    assert sent.rings == [{"mail"}, {"post", "letters"}]


def test_any_queue_includes_those_that_are_named(sent: Sent) -> None:
    ringer = Notifier(sent.send)
    ringer.notify(["mail"])
    sent.is_held.wait(LONG)

    ringer.notify(["post"])
    ringer.notify(None)
    sent.may_go.set()
    ringer.close()

    assert sent.rings == [{"mail"}, None]


def test_closing_sends_what_is_marked(sent: Sent) -> None:
    sent.may_go.set()
    ringer = Notifier(sent.send)

    ringer.notify(["mail"])
    ringer.close()

    assert sent.rings == [{"mail"}]


def test_a_ring_that_cannot_be_sent_is_forgotten() -> None:
    tried: list[Collection[str] | None] = []
    is_tried = threading.Event()

    def fail(queues: frozenset[str] | None) -> None:
        tried.append(queues)
        is_tried.set()
        raise StoreUnavailable("it is away")

    ringer = Notifier(fail)
    ringer.notify(["mail"])
    is_tried.wait(LONG)
    ringer.notify(["post"])
    ringer.close()

    assert tried == [{"mail"}, {"post"}]


def test_a_ring_is_understood_as_it_was_meant() -> None:
    ring = Notification("a", frozenset({"mail", 'été "quoted"'}))

    assert parse_notification(ring.payload()) == ring


def test_a_ring_of_more_queues_than_fit_is_one_of_any() -> None:
    ring = Notification("a", frozenset(f"queue-{number}" for number in range(LONGEST_PAYLOAD)))

    assert parse_notification(ring.payload()) == Notification("a", None)


@pytest.mark.parametrize("text", ["", "mail", "[]", "7", '["a", 7]', '["a", [["b"]]]', "[" * 7_000])
def test_what_is_not_understood_may_mean_any_queue(text: str) -> None:
    assert parse_notification(text).queues is None


def test_stores_of_one_database_have_channels_of_their_own() -> None:
    longest = ["s" * 62 + "a", "s" * 62 + "b"]

    channels = {channel_of(schema) for schema in ["tenure", "app", *longest]}

    assert len(channels) == 4
    assert all(len(channel) <= LONGEST_CHANNEL for channel in channels)
