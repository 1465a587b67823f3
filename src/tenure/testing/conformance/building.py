"""What the tests are built of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from tenure.backends.protocol import Claiming
from tenure.core import transitions
from tenure.core.backoff import Backoff
from tenure.core.job import Entry, Job, NewJob
from tenure.core.operations import ClaimRequest, Extension, Hold, Holding, Query, Settlement

K = TypeVar("K")

GivenJobs = Callable[[int], list[str]]

BACKOFF = Backoff(first=10, factor=2, cap=100)
"""With `no_jitter`, 10 seconds after the first attempt, 20 after the second."""

_numbers = count()


def no_jitter() -> float:
    return 1.0


def token() -> str:
    return f"token-{next(_numbers)}"


def request(**options: Any) -> ClaimRequest:
    return ClaimRequest(**{"worker": "w1", "token": token(), **options})


@dataclass(frozen=True, slots=True)
class Taken:
    """A job as it was claimed, and what its holder shows."""

    job: Job
    hold: Hold

    @property
    def id(self) -> str:
        return self.job.id


def take(store: Claiming, limit: int = 1, **options: Any) -> list[Taken]:
    """Claim, and return what was taken."""
    asked = request(limit=limit, **options)
    return [taken_by(job, asked) for job in store.claim(asked).jobs]


def take_one(store: Claiming, **options: Any) -> Taken:
    (taken,) = take(store, **options)
    return taken


def taken_by(job: Job, asked: ClaimRequest) -> Taken:
    return Taken(job, Hold(id=job.id, fence=job.fence, token=asked.token))


def job_of(store: Claiming, id: str) -> Job:
    (job,) = store.find(Query(ids=(id,))).jobs
    return job


def ids_of(jobs: Sequence[Job] | Sequence[Taken]) -> list[str]:
    return [job.id for job in jobs]


def entry(type: str = "work", *, id: str | None = None, **options: Any) -> Entry:
    """Return a job as it enters a store; unnamed, it gets an id of its own."""
    return NewJob(type, **options).entry(id or f"id-{next(_numbers)}")


def settle(store: Claiming, settlement: Settlement) -> bool:
    (landed,) = store.settle([settlement])
    return landed


def extend(store: Claiming, hold: Hold, lease: float = 60.0) -> Holding:
    (holding,) = store.extend([Extension(hold=hold, lease=lease)])
    return holding


def completed(taken: Taken, result: object = None) -> Settlement:
    return transitions.completed(taken.hold, result)


def failed(taken: Taken, error: str = "broken", *, final: bool = False) -> Settlement:
    return transitions.failed(taken.hold, taken.job, error, final=final, backoff=BACKOFF, random=no_jitter)


def retried(taken: Taken, delay: float | None = None, why: str | None = None) -> Settlement:
    return transitions.retried(taken.hold, taken.job, delay=delay, why=why, backoff=BACKOFF, random=no_jitter)


def snoozed(taken: Taken, delay: float = 30.0) -> Settlement:
    return transitions.snoozed(taken.hold, delay)


def released(taken: Taken) -> Settlement:
    return transitions.released(taken.hold)


def cancelled(taken: Taken, why: str | None = None) -> Settlement:
    return transitions.cancelled(taken.hold, why)


ENDINGS: Mapping[str, Callable[[Taken], Settlement]] = {
    "complete": completed,
    "fail": failed,
    "retry": retried,
    "snooze": snoozed,
    "release": released,
    "cancel": cancelled,
}
"""Every way in which a holder ends its claim."""


def take_each(store: Claiming, names: Iterable[K], **options: Any) -> dict[K, Taken]:
    """Claim a job for each of these names, by a request of its own."""
    return {name: take_one(store, **options) for name in names}


def endings_of(taken: Mapping[str, Taken]) -> dict[str, Settlement]:
    """Return for each claim the ending that it is named after."""
    return {name: ENDINGS[name](each) for name, each in taken.items()}


def settle_each(store: Claiming, settlements: Mapping[K, Settlement]) -> dict[K, bool]:
    """Settle by a request for each, and return which landed."""
    return {name: settle(store, each) for name, each in settlements.items()}


def jobs_of(store: Claiming, taken: Mapping[K, Taken]) -> dict[K, Job]:
    return {name: job_of(store, each.id) for name, each in taken.items()}


def as_claimed(taken: Mapping[K, Taken]) -> dict[K, Job]:
    """Return the jobs as the claims showed them."""
    return {name: each.job for name, each in taken.items()}
