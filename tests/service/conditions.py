"""Worker and service statuses for the tests."""

from dataclasses import replace

from tenure.service.status import ServiceStatus
from tenure.worker.status import WorkerStatus
from tenure.worker.summary import Summary

WELL = WorkerStatus(
    name="w1",
    pid=4711,
    is_ready=True,
    is_stopping=False,
    is_store_failing=False,
    blocked_for=0.0,
    running=0,
    buffered=0,
    summary=Summary(),
)
STARTING = replace(WELL, name="w2", is_ready=False)
STOPPING = replace(WELL, name="w3", is_stopping=True)
CUT_OFF = replace(WELL, name="w4", is_store_failing=True)
QUIET = replace(WELL, name="w5", blocked_for=61.4)


def service_of(*workers: WorkerStatus, wanted: int = 1, is_stopping: bool = False) -> ServiceStatus:
    return ServiceStatus(workers=workers, wanted=wanted, is_stopping=is_stopping)
