"""Waiting for jobs. A wake-up is only a hint, but must not be missed for long."""

import threading
import time

from tenure.backends.protocol import Claiming
from tenure.testing import ClaimingHarness
from tenure.testing.conformance.building import GivenJobs, build_release, settle, take_one

LONG = 30.0


def test_a_wait_ends_at_once_when_a_job_is_due(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)

    assert ends(threading.Thread(target=store.wait, args=(None, None, LONG), daemon=True))


def test_a_wait_ends_after_its_time(store: Claiming) -> None:
    assert ends(threading.Thread(target=store.wait, args=(None, None, 0.01), daemon=True))


def test_a_wait_for_nothing_takes_most_of_its_time(store: Claiming) -> None:
    started = time.monotonic()

    store.wait(None, None, 0.2)

    assert time.monotonic() - started >= 0.1


def test_a_wait_ends_when_a_lease_runs_out(harness: ClaimingHarness) -> None:
    store = harness.open()
    harness.given_jobs(1)
    take_one(store, lease=1)

    assert ends(threading.Thread(target=store.wait, args=(None, None, LONG), daemon=True))


def test_a_wait_ends_when_a_job_comes(harness: ClaimingHarness) -> None:
    store = harness.open()
    waiting = threading.Thread(target=store.wait, args=(None, None, LONG), daemon=True)
    waiting.start()

    harness.given_jobs(1)

    waiting.join(LONG / 2)
    assert not waiting.is_alive()


def test_a_wait_ends_when_a_job_is_given_back(harness: ClaimingHarness) -> None:
    store = harness.open()
    harness.given_jobs(1)
    taken = take_one(store)
    waiting = threading.Thread(target=store.wait, args=(None, None, LONG), daemon=True)
    waiting.start()

    settle(store, build_release(taken))

    waiting.join(LONG / 2)
    assert not waiting.is_alive()


def ends(thread: threading.Thread) -> bool:
    thread.start()
    thread.join(LONG / 2)
    return not thread.is_alive()
