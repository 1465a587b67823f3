"""The exceptions of tenure, and their meaning for the caller.

    TenureError
    ├── ClaimLost             another holder may have the job; the store changed nothing
    ├── KeyTaken              a live job holds this key, and on_conflict is "raise"
    ├── UnknownTask           no task is registered under this type
    ├── DuplicateTask         another function is registered under this type
    ├── NoClaim               the code does not run inside a job
    ├── InvalidPayload        not a JSON value that every store keeps unchanged
    ├── StoreUnavailable      the store did not respond; the request may or may not have taken effect
    ├── SchemaOutdated        this version of tenure cannot use the store's schema
    ├── JobEnded              the awaited job ended without a result
    │   ├── JobFailed         the job failed for good
    │   └── JobCancelled      the job was cancelled
    └── ConfigurationError    an invalid value, option or URL (also a ValueError)

Every message names the problem, the value and the remedy. All exceptions can be pickled, to cross processes.
"""

from functools import partial


class TenureError(Exception):
    """Base class of all exceptions that tenure defines."""


class ClaimLost(TenureError):  # noqa: N818 - named after the fact
    """The claim is no longer the current claim of the job, so the store changed nothing."""

    def __init__(self, message: str, *, id: str, fence: int) -> None:
        super().__init__(message)
        self.id = id
        self.fence = fence

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), str(self), id=self.id, fence=self.fence), ()


class KeyTaken(TenureError):  # noqa: N818 - named after the fact
    """A live job of the queue already holds this key; `id` is the id of that job."""

    def __init__(self, *, key: str, queue: str, id: str) -> None:
        super().__init__(
            f"key {key!r} of queue {queue!r} is taken by the live job {id!r}; "
            "use on_conflict='keep' to get that job's id instead"
        )
        self.key = key
        self.queue = queue
        self.id = id

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), key=self.key, queue=self.queue, id=self.id), ()


class UnknownTask(TenureError):  # noqa: N818 - named after the fact
    """No function is registered as a task under this type."""


class DuplicateTask(TenureError):  # noqa: N818 - named after the fact
    """Another function is registered as a task under this type."""


class NoClaim(TenureError):  # noqa: N818 - named after the fact
    """The code does not run inside a job: no worker called it."""


class InvalidPayload(TenureError, ValueError):  # noqa: N818 - named after the fact
    """The payload or result is not JSON that every store keeps unchanged."""


class StoreUnavailable(TenureError):  # noqa: N818 - named after the fact
    """The store cannot be reached or used."""


class SchemaOutdated(TenureError):  # noqa: N818 - named after the fact
    """This version of tenure cannot use the store's schema."""


class JobEnded(TenureError):  # noqa: N818 - named after the fact
    """The awaited job ended without a result; `id` is the id of the job."""

    def __init__(self, message: str, *, id: str) -> None:
        super().__init__(message)
        self.id = id

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), str(self), id=self.id), ()


class JobFailed(JobEnded):
    """The job failed for good; the message ends with the last error of the job."""


class JobCancelled(JobEnded):
    """The job was cancelled, by an operator or by its handler."""


class ConfigurationError(TenureError, ValueError):
    """An invalid value, option or URL."""
