"""The fields of log lines about a job."""

from tenure.core.log_fields import job_log_fields
from tests.core.test_explanation import JOB


def test_a_log_line_names_the_run_but_neither_payload_nor_result() -> None:
    fields = job_log_fields(JOB)

    assert fields == {
        "job": JOB.id,
        "type": JOB.type,
        "queue": JOB.queue,
        "attempt": JOB.attempts,
        "fence": JOB.fence,
        "worker": JOB.worker,
    }
