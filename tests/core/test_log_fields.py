"""What log lines say about jobs."""

from datetime import UTC, datetime

import pytest

from tenure.core.job import Job, State
from tenure.core.log_fields import MOST_LISTED, job_log_fields, list_ids

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UNSEEN = "swordfish"


def test_the_fields_of_a_job_do_not_include_its_payload_or_result() -> None:
    job = Job(
        id="a", type="t", payload={"n": UNSEEN}, queue="q", key=None, priority=0, run_at=NOW, state=State.RUNNING,
        attempts=2, crashes=0, max_attempts=5, max_crashes=3, timeout=None, fence=3, worker="w", leased_until=NOW,
        progress=None, cancel_requested=False, result=UNSEEN, result_dropped=False, history=(), history_dropped=0,
        meta={}, created_at=NOW, started_at=NOW, finished_at=None,
    )  # fmt: skip

    fields = job_log_fields(job)

    assert fields == {"job": "a", "type": "t", "queue": "q", "attempt": 2, "fence": 3, "worker": "w"}


@pytest.mark.parametrize(
    ("number", "end"),
    [(1, "0"), (MOST_LISTED, f"{MOST_LISTED - 1}"), (MOST_LISTED + 2, f"{MOST_LISTED - 1} and 2 more")],
)
def test_a_list_of_ids_has_a_limited_length(number: int, end: str) -> None:
    text = list_ids([str(id) for id in range(number)])

    assert text.endswith(end)
    assert text.count(",") == min(number, MOST_LISTED) - 1
