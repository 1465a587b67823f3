"""What can go wrong, and what each means to the caller.

    TenureError
    ├── ClaimLost             another holder may have the job; nothing was written
    ├── KeyTaken              a live job has this key, and the caller asked not to share it
    ├── UnknownTask           no task is registered under this type
    ├── DuplicateTask         another function is registered under this type
    ├── NoClaim               there is no running job here
    ├── InvalidPayload        not a JSON value that every store keeps unchanged
    ├── StoreUnavailable      the store did not answer; nothing is known of the request
    ├── SchemaOutdated        the store's schema is not one that this version of tenure can use
    ├── JobEnded              the job that was waited for ended without a result
    │   ├── JobFailed         it failed for good
    │   └── JobCancelled      it was cancelled
    └── ConfigurationError    a value, option or URL that cannot be used (also a ValueError)

Every message says what happened, the value, and the remedy. All of them can be pickled, to cross processes.
"""

from functools import partial


class TenureError(Exception):
    """Root of every error that tenure raises on its own account."""


class ClaimLost(TenureError):  # noqa: N818 - named after the fact
    """The claim is no longer the job's current one, so the store changed nothing."""

    def __init__(self, message: str, *, id: str, fence: int) -> None:
        super().__init__(message)
        self.id = id
        self.fence = fence

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), str(self), id=self.id, fence=self.fence), ()


class KeyTaken(TenureError):  # noqa: N818 - named after the fact
    """A live job of the queue already has this key; `id` is that job's."""

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
    """No job runs here: this code was not called by a worker."""


class InvalidPayload(TenureError, ValueError):  # noqa: N818 - named after the fact
    """The payload or result is not JSON that every store keeps unchanged."""


class StoreUnavailable(TenureError):  # noqa: N818 - named after the fact
    """The store could not be reached or used."""


class SchemaOutdated(TenureError):  # noqa: N818 - named after the fact
    """The store has a schema that this version of tenure cannot use."""


class JobEnded(TenureError):  # noqa: N818 - named after the fact
    """The job that was waited for ended without a result; `id` is its id."""

    def __init__(self, message: str, *, id: str) -> None:
        super().__init__(message)
        self.id = id

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), str(self), id=self.id), ()


class JobFailed(JobEnded):
    """The job failed for good; the message ends with its last error."""


class JobCancelled(JobEnded):
    """The job was cancelled, by hand or from within."""


class ConfigurationError(TenureError, ValueError):
    """A value, option or URL that cannot be used as given."""
