"""Helpers of the tests: build requests and settlements, claim and read jobs."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from tenure.backends.protocol import Claiming
from tenure.client import settling
from tenure.core import transitions
from tenure.core.backoff import Backoff
from tenure.core.job import Job, JobRecord, NewJob
from tenure.core.operations import Claimed, ClaimRequest, Extension, Hold, HoldStatus, Query, Settled, Settlement

K = TypeVar("K")

GivenJobs = Callable[[int], list[str]]

BACKOFF = Backoff(first=10, factor=2, cap=100)
"""With `no_jitter`: 10 seconds after the first attempt, 20 seconds after the second."""

FEWEST_DIGITS = 640
"""The shortest limit of the digits of an integer that Python accepts."""

_numbers = count()


def no_jitter() -> float:
    return 1.0


@contextmanager
def limit_of_digits(limit: int) -> Iterator[None]:
    """Let Python convert integers of at most `limit` digits; 0 means of any length."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def token() -> str:
    return f"token-{next(_numbers)}"


def request(**options: Any) -> ClaimRequest:
    return ClaimRequest(**{"worker": "w1", "token": token(), **options})


@dataclass(frozen=True, slots=True)
class Taken:
    """A claimed job and its hold."""

    job: Job
    hold: Hold

    @property
    def id(self) -> str:
        return self.job.id


def take(store: Claiming, limit: int = 1, **options: Any) -> list[Taken]:
    """Claim jobs."""
    claim_request = request(limit=limit, **options)
    return [as_taken(job, claim_request) for job in store.claim(claim_request).jobs]


def take_one(store: Claiming, **options: Any) -> Taken:
    (taken,) = take(store, **options)
    return taken


def as_taken(job: Job, request: ClaimRequest) -> Taken:
    return Taken(job, Hold(id=job.id, fence=job.fence, token=request.token))


def job_of(store: Claiming, id: str) -> Job:
    (job,) = store.find(Query(ids=(id,))).jobs
    return job


def ids_of(jobs: Sequence[Job] | Sequence[Taken]) -> list[str]:
    return [job.id for job in jobs]


def build_record(type: str = "work", *, id: str | None = None, **options: Any) -> JobRecord:
    """Build a record to enqueue; without an `id`, generate one."""
    return NewJob(type, **options).record(id or f"id-{next(_numbers)}")


def settle(store: Claiming, settlement: Settlement) -> Settled:
    """Settle one claim; wait while another transaction has locked the job."""
    (settled,) = settling.settle(store, [settlement])
    return settled


def exchange(
    store: Claiming, settlements: Sequence[Settlement], request: ClaimRequest
) -> tuple[Sequence[Settled], Claimed]:
    """Settle and claim in one request; like a worker, claim again if the claim was cut."""
    settled, claimed = store.exchange(settlements, request)
    return settled, store.claim(request) if claimed.is_cut else claimed


def extend(store: Claiming, hold: Hold, lease: float = 60.0) -> HoldStatus:
    """Extend one lease; wait while another transaction has locked the job."""
    _, status = settling.extend(store, Extension(hold=hold, lease=lease), settling.BUSY_TIMEOUT)
    return status


def build_completion(taken: Taken, result: object = None) -> Settlement:
    return transitions.build_completion(taken.hold, result)


def build_failure(taken: Taken, error: str = "broken", *, final: bool = False) -> Settlement:
    return transitions.build_failure(taken.hold, taken.job, error, final=final, backoff=BACKOFF, random=no_jitter)


def build_retry(taken: Taken, delay: float | None = None, why: str | None = None) -> Settlement:
    return transitions.build_retry(taken.hold, taken.job, delay=delay, why=why, backoff=BACKOFF, random=no_jitter)


def build_snooze(taken: Taken, delay: float = 30.0) -> Settlement:
    return transitions.build_snooze(taken.hold, delay)


def build_release(taken: Taken) -> Settlement:
    return transitions.build_release(taken.hold)


def build_cancellation(taken: Taken, why: str | None = None) -> Settlement:
    return transitions.build_cancellation(taken.hold, why)


ENDINGS: Mapping[str, Callable[[Taken], Settlement]] = {
    "complete": build_completion,
    "fail": build_failure,
    "retry": build_retry,
    "snooze": build_snooze,
    "release": build_release,
    "cancel": build_cancellation,
}
"""All settlements of a holder, by name."""


def take_each(store: Claiming, names: Iterable[K], **options: Any) -> dict[K, Taken]:
    """Claim a job for each name, with separate requests."""
    return {name: take_one(store, **options) for name in names}


def build_endings(taken: Mapping[str, Taken]) -> dict[str, Settlement]:
    """Return the settlement of each claim; the name of the claim selects the kind."""
    return {name: ENDINGS[name](each) for name, each in taken.items()}


def settle_each(store: Claiming, settlements: Mapping[K, Settlement]) -> dict[K, Settled]:
    """Settle each claim with a separate request, and return which settlements were accepted."""
    return {name: settle(store, each) for name, each in settlements.items()}


def jobs_of(store: Claiming, taken: Mapping[K, Taken]) -> dict[K, Job]:
    return {name: job_of(store, each.id) for name, each in taken.items()}


def as_claimed(taken: Mapping[K, Taken]) -> dict[K, Job]:
    """Return the jobs as returned by their claims."""
    return {name: each.job for name, each in taken.items()}
