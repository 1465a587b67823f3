"""Keep leases alive while their jobs are worked on.

One thread for all leases of a `Jobs`: work that blocks an event loop, or keeps its own thread busy, must not cost a
lease. Deadlines count from before the request was sent, so that a lease is taken for lost here before the store would
give the job away.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tenure.core.job import Job, Progress
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import LARGEST_BATCH, Extension, Hold, HoldStatus
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)

CLOCK_DRIFT_MARGIN = 0.02
"""The part of a lease that is not relied upon, for clocks that do not run equally fast."""

IDLE_THREAD_TTL = 5.0
"""Seconds that the thread stays after the last lease is gone."""

PROGRESS_INTERVAL = 0.2
"""Seconds between two reports of progress to the store; of what is said in between, the latest counts."""

Extend = Callable[[Sequence[Extension]], list[HoldStatus]]
Ticks = Callable[[], float]


ticks: Ticks = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Returns seconds that only grow; where the system can tell, also while it sleeps."""


class Lease:
    """The holder's own view of its lease. It never lasts longer here than in the store.

    `on_bad_news`, if there is one, is called in the keeper's thread when the lease is lost or a cancel was asked for.
    """

    __slots__ = (
        "_ticks",
        "cancel_requested",
        "due_at",
        "hold",
        "is_over",
        "is_verified",
        "job",
        "keep_count",
        "length",
        "on_lost_or_cancelled",
        "progress",
        "sent_at",
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
        self.keep_count = 0
        self.progress: Progress | None = None
        self.on_lost_or_cancelled = on_lost_or_cancelled
        self.job = job
        self._ticks = ticks

    @classmethod
    def unverified(cls, hold: Hold, length: float) -> "Lease":
        """Return the lease of a claim that was made elsewhere: how much of it is left is known once it is extended."""
        lease = cls(hold, length, ticks())
        lease.valid_until = lease.due_at = lease.sent_at
        lease.is_verified = False
        return lease

    @property
    def is_lost(self) -> bool:
        """Whether the job may be another's by now."""
        return self.is_over or self._ticks() >= self.valid_until

    def record_extension(self, status: HoldStatus, sent_at: float, length: float) -> None:
        """Take in what the store answered to a request that was sent at this moment."""
        if status is HoldStatus.LOST:
            self.is_over = True
            return
        self.is_verified = True
        self.cancel_requested = self.cancel_requested or status is HoldStatus.CANCEL_REQUESTED
        self.sent_at = sent_at
        self.valid_until = max(self.valid_until, _deadline(sent_at, length))
        # After a third, so that two more tries fit in.
        self.due_at = sent_at + self.length / 3


LeaseCallback = Callable[[Lease], None]


def _deadline(sent_at: float, length: float) -> float:
    """Return until when a lease surely holds whose request was sent at this moment."""
    return sent_at + length * (1 - CLOCK_DRIFT_MARGIN)


class Keeper:
    """Extends what it is given to keep, a third of each lease after the last time."""

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
        """Keep these leases alive until they are dropped as often, or lost."""
        self._reset_after_fork()
        with self._lock:
            if self._is_stopped:
                raise StoreUnavailable(f"cannot extend the lease: the {self._kind} of this claim is closed")
            for lease in leases:
                lease.keep_count += 1
                self._keep(lease)
            self._ensure_thread()

    def drop(self, leases: Iterable[Lease]) -> None:
        """Let these leases run out by themselves, unless someone else keeps them."""
        self._reset_after_fork()
        with self._lock:
            for lease in leases:
                lease.keep_count -= 1
                if lease.keep_count <= 0:
                    self._kept.pop(id(lease), None)

    def end(self, *leases: Lease) -> None:
        """Keep these leases no more: their claims have ended."""
        self._reset_after_fork()
        with self._lock:
            for lease in leases:
                lease.is_over = True
                self._kept.pop(id(lease), None)

    def report(self, lease: Lease, progress: Progress) -> None:
        """Send this along with an extension, soon. Of several reports only the latest is sent."""
        self._reset_after_fork()
        with self._lock:
            lease.progress = progress
            lease.due_at = min(lease.due_at, lease.sent_at + PROGRESS_INTERVAL)
            if lease.due_at < self._sleeps_until:
                self._wake.set()

    def record_extension(self, lease: Lease, status: HoldStatus, sent_at: float, length: float) -> None:
        """Take in what the store answered to an extension by the holder's own hand."""
        with self._lock:
            lease.record_extension(status, sent_at, length)
            # It may have been given up here before its holder reached the store again.
            if lease.keep_count > 0 and not self._is_stopped:
                self._keep(lease)
                self._ensure_thread()

    def stop(self) -> None:
        """Drop everything, end the thread, and keep nothing more."""
        self._reset_after_fork()
        with self._lock:
            self._is_stopped = True
            self._kept.clear()
            thread, self._thread = self._thread, None
            self._wake.set()
        if thread is not None:
            thread.join()

    def extend_due(self) -> None:
        """Extend what is due, and note until when nothing more is."""
        now = self._ticks()
        with self._lock:
            kept = list(self._kept.values())
        for lease in kept:
            if now >= lease.valid_until:
                self._handle_loss(lease, "the lease could not be extended in time")
        # What is nearly due goes along, so that leases taken one by one come to be extended together.
        due = [lease for lease in kept if lease.due_at - lease.length / 6 <= now < lease.valid_until]
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
            # It waits for this lock before it looks whether it is the one.
            thread.start()
            self._thread = thread

    def _extend_now(self, leases: Sequence[Lease]) -> None:
        sent_at = self._ticks()
        try:
            extensions = [self._extension_of(lease) for lease in leases]
            responses = list(zip(leases, extensions, self._extend(extensions), strict=True))
        except Exception as exc:  # noqa: BLE001 - the keeper thread must survive any error and retry
            self._log_failure(exc, len(leases))
            for lease in leases:
                lease.due_at = self._ticks() + lease.length / 20
            return
        self._is_failing = False
        for lease, extension, status in responses:
            with self._lock:
                was_cancel_requested = lease.cancel_requested
                lease.record_extension(status, sent_at, lease.length)
                if lease.progress is extension.progress:
                    lease.progress = None
                if lease.progress is not None:
                    lease.due_at = sent_at + PROGRESS_INTERVAL
            if lease.is_over:
                self._handle_loss(lease, "another claim, a reaper or an operator took the job")
            elif lease.cancel_requested and not was_cancel_requested and lease.on_lost_or_cancelled is not None:
                lease.on_lost_or_cancelled(lease)

    def _extension_of(self, lease: Lease) -> Extension:
        return Extension(hold=lease.hold, lease=lease.length, progress=lease.progress)

    def _log_failure(self, exc: Exception, number: int) -> None:
        """Say it once, not with every try."""
        if self._is_failing:
            return
        self._is_failing = True
        if isinstance(exc, StoreUnavailable):
            log.warning("leases not extended, retrying: %s", exc, extra={"leases": number})
        else:
            log.error("leases not extended, retrying", exc_info=exc, extra={"leases": number})

    def _handle_loss(self, lease: Lease, why: str) -> None:
        with self._lock:
            # A claim that ended meanwhile is not kept any more, and has lost nothing.
            if self._kept.pop(id(lease), None) is None:
                return
        hold = lease.hold
        known = {"job": hold.id, "fence": hold.fence} if lease.job is None else job_log_fields(lease.job)
        log.warning("claim of job %s lost: %s", hold.id, why, extra=known)
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
        """Forget the parent's leases and thread: a forked child has neither, and may have its lock taken."""
        if self._process != os.getpid():
            self._reset()
