"""Services in the conditions that the tests need."""

from dataclasses import replace

from tenure.service.status import Condition
from tenure.worker.status import Vitals
from tenure.worker.summary import Summary

WELL = Vitals(
    name="w1",
    pid=4711,
    is_ready=True,
    is_stopping=False,
    is_store_failing=False,
    quiet_for=0.0,
    running=0,
    waiting=0,
    summary=Summary(),
)
STARTING = replace(WELL, name="w2", is_ready=False)
STOPPING = replace(WELL, name="w3", is_stopping=True)
CUT_OFF = replace(WELL, name="w4", is_store_failing=True)
QUIET = replace(WELL, name="w5", quiet_for=61.4)


def service_of(*workers: Vitals, wanted: int = 1, is_stopping: bool = False) -> Condition:
    return Condition(workers=workers, wanted=wanted, is_stopping=is_stopping)
