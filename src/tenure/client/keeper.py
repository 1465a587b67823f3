"""Extend the leases of running jobs.

One thread extends all leases of a `Jobs`: a blocked event loop or a busy handler must not cost a lease. Deadlines count
from before the request was sent, so a lease counts as lost here before the store can reap it.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from tenure.core.job import Job, Progress
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import LARGEST_BATCH, Extension, Hold, HoldStatus
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)

CLOCK_DRIFT_MARGIN = 0.02
"""Fraction of a lease kept as a margin, because clocks do not run equally fast."""

IDLE_THREAD_TTL = 5.0
"""Seconds that the idle keeper thread lives after the last lease."""

PROGRESS_INTERVAL = 0.2
"""Seconds between two progress updates of a job; only the latest progress is sent."""

RETRY_FRACTION = 1 / 20
"""Fraction of a lease after which a failed extension is retried."""

BLOCKED_WARNING_FRACTION = 1 / 2
"""Fraction of a lease after which the keeper warns of a job that another transaction keeps locked."""

BLOCKED = {
    HoldStatus.BUSY: "another transaction has locked the job, or its table is slow",
    HoldStatus.REJECTED: "its table rejects the write",
}
"""Why an extension changed nothing."""

Extend = Callable[[Sequence[Extension]], list[HoldStatus]]
Ticks = Callable[[], float]


ticks: Ticks = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Monotonic seconds; where the system supports it, the clock also advances while the machine is suspended."""


class Lease:
    """The holder's view of a lease. The lease never lasts longer here than in the store.

    The keeper thread calls `on_lost_or_cancelled`, if set, when the lease is lost or a cancel was requested.
    `status` is the response to the last extension, or None if the request failed.
    """

    __slots__ = (
        "_ticks",
        "cancel_requested",
        "due_at",
        "hold",
        "is_over",
        "is_verified",
        "is_warning_logged",
        "job",
        "keep_count",
        "length",
        "on_lost_or_cancelled",
        "progress",
        "sent_at",
        "status",
        "valid_until",
    )

    def __init__(
        self,
        hold: Hold,
        length: float,
        sent_at: float,
        on_lost_or_cancelled: "LeaseCallback | None" = None,
        job: Job | None = None,
        *,
        ticks: Ticks = ticks,
    ) -> None:
        self.hold = hold
        self.length = length
        self.sent_at = sent_at
        self.valid_until = _deadline(sent_at, length)
        self.due_at = sent_at + length / 3
        self.cancel_requested = False
        self.is_over = False
        self.is_verified = True
        self.is_warning_logged = False
        self.status: HoldStatus | None = HoldStatus.HELD
        self.keep_count = 0
        self.progress: Progress | None = None
        self.on_lost_or_cancelled = on_lost_or_cancelled
        self.job = job
        self._ticks = ticks

    @classmethod
    def unverified(cls, hold: Hold, length: float) -> "Lease":
        """Return the lease of a claim made elsewhere. The remaining time is unknown until the first extension."""
        lease = cls(hold, length, ticks())
        lease.valid_until = lease.due_at = lease.sent_at
        lease.is_verified = False
        return lease

    @property
    def is_lost(self) -> bool:
        """Whether another worker may hold the job."""
        return self.is_over or self._ticks() >= self.valid_until

    @property
    def is_blocked(self) -> bool:
        """Whether the job was locked, or its table rejected the write, at the last extension."""
        return self.status in BLOCKED

    @property
    def was_extended(self) -> bool:
        """Whether the last extension succeeded; the claim counts as one."""
        return self.status in {HoldStatus.HELD, HoldStatus.CANCEL_REQUESTED}

    @property
    def joins_at(self) -> float:
        """From when the lease joins a request for other leases; a blocked lease only shortly before its retry."""
        return self.due_at - self.length * (RETRY_FRACTION / 2 if self.is_blocked else 1 / 6)

    def record_extension(self, status: HoldStatus, sent_at: float, length: float) -> None:
        """Record the response to an extension that was sent at `sent_at`."""
        self.status = status
        if status is HoldStatus.LOST:
            self.is_over = True
            return
        if self.is_blocked:
            self.due_at = sent_at + self.length * RETRY_FRACTION
            return
        self.is_verified = True
        self.is_warning_logged = False
        self.cancel_requested = self.cancel_requested or status is HoldStatus.CANCEL_REQUESTED
        self.sent_at = sent_at
        self.valid_until = max(self.valid_until, _deadline(sent_at, length))
        # After a third of the lease: leaves time for two retries.
        self.due_at = sent_at + self.length / 3


LeaseCallback = Callable[[Lease], None]


def _deadline(sent_at: float, length: float) -> float:
    """Return until when a lease certainly holds whose request was sent at `sent_at`."""
    return sent_at + length * (1 - CLOCK_DRIFT_MARGIN)


class Keeper:
    """Extends each lease when a third of it has passed since the last extension."""

    def __init__(self, extend: Extend, ticks: Ticks = ticks, kind: str = "Jobs") -> None:
        self._extend = extend
        self._ticks = ticks
        self._kind = kind
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._kept: dict[int, Lease] = {}
        self._thread: threading.Thread | None = None
        self._sleeps_until = 0.0
        self._is_failing = False
        self._is_stopped = False

    def keep(self, leases: Iterable[Lease]) -> None:
        """Extend these leases until each is dropped as often as kept, or lost."""
        self._reset_after_fork()
        with self._lock:
            if self._is_stopped:
                raise StoreUnavailable(f"cannot extend the lease: the {self._kind} of this claim is closed")
            for lease in leases:
                lease.keep_count += 1
                self._keep(lease)
            self._ensure_thread()

    def drop(self, leases: Iterable[Lease]) -> None:
        """Stop extending these leases, unless another block still uses a lease."""
        self._reset_after_fork()
        with self._lock:
            for lease in leases:
                lease.keep_count -= 1
                if lease.keep_count <= 0:
                    self._kept.pop(id(lease), None)

    def end(self, *leases: Lease) -> None:
        """Mark these leases as over, and extend them no more."""
        self._reset_after_fork()
        with self._lock:
            for lease in leases:
                lease.is_over = True
                self._kept.pop(id(lease), None)

    def report(self, lease: Lease, progress: Progress) -> None:
        """Send progress with an extension within `PROGRESS_INTERVAL` seconds; only the latest progress is sent.

        If the last extension failed, the progress waits for the retry.
        """
        self._reset_after_fork()
        with self._lock:
            lease.progress = progress
            if lease.was_extended:
                lease.due_at = min(lease.due_at, lease.sent_at + PROGRESS_INTERVAL)
            if lease.due_at < self._sleeps_until:
                self._wake.set()

    def record_extension(self, lease: Lease, status: HoldStatus, sent_at: float, length: float) -> None:
        """Record the response to an extension that the holder sent, not the keeper thread."""
        with self._lock:
            lease.record_extension(status, sent_at, length)
            # The keeper may have dropped the lease as lost before the holder reached the store again.
            if lease.keep_count > 0 and not lease.is_lost and not self._is_stopped:
                self._keep(lease)
                self._ensure_thread()
        self._warn_if_blocked_long(lease)

    def stop(self) -> None:
        """Drop all leases, end the thread, and reject new leases."""
        self._reset_after_fork()
        with self._lock:
            self._is_stopped = True
            self._kept.clear()
            thread, self._thread = self._thread, None
            self._wake.set()
        if thread is not None:
            thread.join()

    def extend_due(self) -> None:
        """Extend the leases that are due, and set the time of the next run."""
        now = self._ticks()
        with self._lock:
            kept = list(self._kept.values())
        for lease in kept:
            if now >= lease.valid_until:
                why = f": {BLOCKED[lease.status]}" if lease.status in BLOCKED else ""
                self._handle_loss(lease, f"the lease could not be extended in time{why}")
        # Include leases that are nearly due: the keeper then soon extends leases of separate claims in one batch.
        due = [lease for lease in kept if lease.joins_at <= now < lease.valid_until]
        if any(now >= lease.due_at for lease in due):
            for start in range(0, len(due), LARGEST_BATCH):
                self._extend_now(due[start : start + LARGEST_BATCH])
        with self._lock:
            next_at = (min(lease.due_at, lease.valid_until) for lease in self._kept.values())
            self._sleeps_until = min(next_at, default=self._ticks() + IDLE_THREAD_TTL)

    def _keep(self, lease: Lease) -> None:
        if lease.is_over:
            return
        self._kept[id(lease)] = lease
        if lease.due_at < self._sleeps_until:
            self._wake.set()

    def _ensure_thread(self) -> None:
        if self._kept and (self._thread is None or not self._thread.is_alive()):
            thread = threading.Thread(target=self._run, name="tenure-keeper", daemon=True)
            # The new thread waits for this lock before it compares itself with `self._thread`.
            thread.start()
            self._thread = thread

    def _extend_now(self, leases: Sequence[Lease]) -> None:
        sent_at = self._ticks()
        try:
            extensions = [self._extension_of(lease) for lease in leases]
            responses = list(zip(leases, extensions, self._extend(extensions), strict=True))
        except Exception as exc:  # noqa: BLE001 - the keeper thread must survive any error and retry
            self._log_failure(exc, len(leases))
            failed_at = self._ticks()
            with self._lock:
                for lease in leases:
                    lease.status = None
                    lease.due_at = failed_at + lease.length * RETRY_FRACTION
            return
        self._is_failing = False
        for lease, extension, status in responses:
            with self._lock:
                was_cancel_requested = lease.cancel_requested
                lease.record_extension(status, sent_at, lease.length)
                if lease.progress is extension.progress and status is not HoldStatus.BUSY:
                    lease.progress = None
                if status is HoldStatus.REJECTED and extension.progress is not None:
                    # The table may have rejected the progress: extend without it.
                    lease.due_at = sent_at
                elif lease.progress is not None and not lease.is_blocked:
                    lease.due_at = sent_at + PROGRESS_INTERVAL
            self._warn_if_blocked_long(lease)
            if lease.is_over:
                self._handle_loss(lease, "another claim, a reaper or an operator took the job")
            elif lease.cancel_requested and not was_cancel_requested and lease.on_lost_or_cancelled is not None:
                lease.on_lost_or_cancelled(lease)

    def _extension_of(self, lease: Lease) -> Extension:
        progress = None if lease.status is HoldStatus.REJECTED else lease.progress
        return Extension(hold=lease.hold, lease=lease.length, progress=progress)

    def _log_failure(self, exc: Exception, number: int) -> None:
        """Log the first of several consecutive failures."""
        if self._is_failing:
            return
        self._is_failing = True
        if isinstance(exc, StoreUnavailable):
            log.warning("leases not extended, retrying: %s", exc, extra={"leases": number})
        else:
            log.error("leases not extended, retrying", exc_info=exc, extra={"leases": number})

    def _warn_if_blocked_long(self, lease: Lease) -> None:
        """Log that a lease cannot be extended, once after each extension."""
        now = self._ticks()
        with self._lock:
            is_locked = lease.status is HoldStatus.BUSY and id(lease) in self._kept
            warns_at = lease.sent_at + lease.length * BLOCKED_WARNING_FRACTION
            if not is_locked or lease.is_warning_logged or now < warns_at:
                return
            lease.is_warning_logged = True
        log.warning(
            "lease of job %s not extended: %s; the claim is lost in %.0f s",
            lease.hold.id,
            BLOCKED[HoldStatus.BUSY],
            max(0.0, lease.valid_until - now),
            extra=_log_fields(lease),
        )

    def _handle_loss(self, lease: Lease, why: str) -> None:
        with self._lock:
            # The claim was settled meanwhile: nothing is lost.
            if self._kept.pop(id(lease), None) is None:
                return
        log.warning("claim of job %s lost: %s", lease.hold.id, why, extra=_log_fields(lease))
        if lease.on_lost_or_cancelled is not None:
            lease.on_lost_or_cancelled(lease)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
            self.extend_due()
            is_woken = self._wake.wait(max(0.0, self._sleeps_until - self._ticks()))
            with self._lock:
                if not self._kept and not is_woken and self._thread is threading.current_thread():
                    self._thread = None
                    return

    def _reset_after_fork(self) -> None:
        """Drop the parent's leases and thread: a forked child has neither, and the copied lock may be held."""
        if self._process != os.getpid():
            self._reset()


def _log_fields(lease: Lease) -> Mapping[str, object]:
    hold = lease.hold
    return {"job": hold.id, "fence": hold.fence} if lease.job is None else job_log_fields(lease.job)
