"""Waiting for jobs of some queues and types."""

import threading

from tenure.testing import Harness
from tenure.testing.conformance.building import build_record

LONG = 30.0


def test_a_wait_is_ended_by_a_job_of_its_queue_and_type(harness: Harness) -> None:
    store = harness.open()
    waiting = threading.Thread(target=store.wait, args=(["mail"], ["send"], LONG), daemon=True)
    waiting.start()

    store.enqueue([build_record("send", queue="mail")])

    waiting.join(LONG / 2)
    assert not waiting.is_alive()


def test_a_wait_is_ended_when_its_queue_is_resumed(harness: Harness) -> None:
    store = harness.open()
    store.enqueue([build_record(queue="mail")])
    store.pause(["mail"])
    waiting = threading.Thread(target=store.wait, args=(["mail"], None, LONG), daemon=True)
    waiting.start()

    store.resume(["mail"])

    waiting.join(LONG / 2)
    assert not waiting.is_alive()


def test_a_wait_is_ended_when_a_scheduled_job_comes_due(harness: Harness) -> None:
    store = harness.open()
    store.enqueue([build_record(delay=0.05)])
    waiting = threading.Thread(target=store.wait, args=(None, None, LONG), daemon=True)
    waiting.start()

    waiting.join(LONG / 2)
    assert not waiting.is_alive()
