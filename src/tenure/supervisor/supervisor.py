"""Keep a number of worker processes running, and stop them in order.

The supervisor runs no jobs, imports no user code and opens no store, so that the cause of a child's death does not
affect it. The jobs of a dead child are reaped at once: started jobs count a crash, buffered jobs are released. One
thread does all of this, in a loop that runs a few times a second.
"""

import logging
import os
from dataclasses import replace

from tenure.client.keeper import ticks
from tenure.errors import ConfigurationError
from tenure.service.status import ServiceStatus
from tenure.signals import stopped_by_signals
from tenure.supervisor.child import Child, ChildStopReason, describe_exit
from tenure.supervisor.config import SupervisorConfig
from tenure.supervisor.file_watcher import FileWatcher
from tenure.supervisor.process_slot import ProcessSlot
from tenure.supervisor.result import ExitReason, SupervisorResult
from tenure.worker.summary import Summary
from tenure.worker.wakeup import Wakeup

log = logging.getLogger(__name__)

LOOP_INTERVAL = 0.25
REPLACE_INTERVAL = 1.0
FILE_CHECK_INTERVAL = 0.5


class Supervisor:
    """Run once. `stop` and `status` are safe in any thread and in a signal handler."""

    def __init__(self, config: SupervisorConfig) -> None:
        if os.name != "posix":
            raise ConfigurationError(
                f"several processes are not supported on {os.name!r}; start single workers instead"
            )
        self._config = config
        self._slots = [ProcessSlot(config) for _ in range(config.processes)]
        self._first_slot = self._slots[0]
        self._wakeup = Wakeup()
        self._stop_requests = 0
        self._exit_reason: ExitReason | None = None
        self._was_any_ready = False
        self._file_watcher: FileWatcher | None = None
        self._waits_for_change = False
        self._next_replacement_at = self._next_file_check_at = 0.0
        self._deaths = self._killed = 0
        self._ended_summary = Summary()
        self._status = ServiceStatus(workers=(), wanted=config.processes)
        self._last_iteration_at = ticks()

    def run(self) -> SupervisorResult:
        """Start the children and monitor them until a signal, `stop`, or, with `drain`, until no jobs are due."""
        if self._config.reload is not None:
            self._file_watcher = FileWatcher(self._config.reload)
        log.info("supervisor %s started; worker processes: %s", os.getpid(), self._config.processes)
        with stopped_by_signals(self):
            try:
                while (result := self._run_once(ticks())) is None:
                    self._wakeup.wait(LOOP_INTERVAL)
            finally:
                for slot in self._slots:
                    slot.close()
        return result

    def stop(self, *, now: bool = False) -> None:
        """Stop the children, and end when they have exited; with `now`, without their grace period.

        This returns at once.
        """
        self._stop_requests = max(self._stop_requests, 2 if now else 1)
        self._wakeup.set()

    def status(self) -> ServiceStatus:
        """Return the latest status. It is old if the supervisor is blocked, for example by a full log pipe."""
        return replace(self._status, blocked_for=max(0.0, ticks() - self._last_iteration_at - LOOP_INTERVAL))

    def _run_once(self, now: float) -> SupervisorResult | None:
        self._last_iteration_at = now
        self._forward_stop()
        for slot in self._slots:
            self._check_slot(slot, now)
        if self._exit_reason is None:
            self._check_files(now)
            self._replace_one(now)
            self._check_startup()
            self._start_due(now)
        self._publish_status(now)
        return self._result()

    def _forward_stop(self) -> None:
        if self._stop_requests and self._exit_reason is None:
            self._exit_reason = ExitReason.STOPPED
        if self._exit_reason is not None:
            self._stop_all(ChildStopReason.STOP, now=self._stop_requests > 1)

    def _stop_all(self, reason: ChildStopReason, *, now: bool = False) -> None:
        for slot in self._slots:
            if slot.child is not None:
                slot.child.request_stop(reason, now=now)

    def _check_slot(self, slot: ProcessSlot, now: float) -> None:
        slot.check_reaping(now)
        child = slot.child
        if child is None:
            return
        code = child.exit_code()
        # A child that is being stopped proves nothing about the next ones: the source may have changed.
        self._was_any_ready = self._was_any_ready or (child.is_ready and child.reason is None)
        if code is not None:
            self._handle_exit(slot, child, code, now)
        elif child.reason is not None:
            child.escalate_stop(now)
        elif child.is_ready:
            slot.is_recycling = False

    def _handle_exit(self, slot: ProcessSlot, child: Child, code: int, now: float) -> None:
        """Handle the exit of a child: log it, reap its jobs, schedule a restart."""
        slot.child = None
        self._ended_summary += child.summary
        self._killed += child.was_killed
        is_clean = child.has_clean_exit(code) and (child.reason is not None or self._config.drain)
        if not is_clean and child.name is not None:
            entries = child.unfinished_entries()
            self._log_death(child, code, entries)
            slot.reap(child.name, entries, now)
        elif not is_clean and child.reason is None:
            self._log_death(child, code, [])
        if child.reason is None and is_clean:
            slot.is_done = self._was_any_ready = True
        elif child.reason is None:
            self._deaths += 1
            slot.record_death(code, now - child.started_at, now)
        child.close()

    def _log_death(self, child: Child, code: int, entries: list[str] | None) -> None:
        log.error(
            "worker process %s (%s) %s: %s; started jobs: %s",
            child.pid,
            child.name or "not started",
            "did not stop in time and was killed" if child.was_killed else "died",
            describe_exit(code),
            "unknown" if entries is None else len(entries),
            extra={
                "pid": child.pid,
                "worker": child.name,
                "code": code,
                "started": None if entries is None else len(entries),
            },
        )

    def _check_files(self, now: float) -> None:
        if self._file_watcher is None or now < self._next_file_check_at:
            return
        changed = self._file_watcher.poll_changes()
        # With many files, check less often: a scan must not take more than a twentieth of the time.
        self._next_file_check_at = now + max(FILE_CHECK_INTERVAL, 20 * (ticks() - now))
        if not changed:
            return
        log.info("%s changed; restarting all worker processes", changed[0], extra={"paths": [*map(str, changed)]})
        self._was_any_ready = self._waits_for_change = False
        for slot in self._slots:
            slot.reset()
        self._stop_all(ChildStopReason.RELOAD)

    def _replace_one(self, now: float) -> None:
        """Stop a child that is due for replacement. One at a time, so that the others continue."""
        if now < self._next_replacement_at or any(slot.is_recycling for slot in self._slots):
            return
        self._next_replacement_at = now + REPLACE_INTERVAL
        for slot in self._slots:
            cause = slot.replacement_reason()
            if slot.child is not None and cause is not None:
                pid = slot.child.pid
                log.info("worker process %s is being replaced: %s", pid, cause, extra={"pid": pid})
                slot.is_recycling = True
                slot.child.request_stop(ChildStopReason.RECYCLE)
                return

    def _check_startup(self) -> None:
        """Stop if no child could start; with `reload`, wait for a changed file instead."""
        first = self._first_slot
        if self._was_any_ready or self._waits_for_change or not first.cannot_start:
            return
        if self._file_watcher is None:
            self._exit_reason = ExitReason.START_REJECTED if first.has_usage_error else ExitReason.NEVER_READY
            self._forward_stop()
        else:
            self._waits_for_change = True
            log.error("no worker process could start; waiting for a source change")

    def _start_due(self, now: float) -> None:
        if self._exit_reason is not None or self._waits_for_change:
            return
        # Start one child first: an error that prevents its start would affect all, and is logged once.
        if self._first_slot.child is not None and self._first_slot.child.reason is not None:
            # That child is still stopping, which may take long: an empty slot starts first instead.
            self._first_slot = next((slot for slot in self._slots if slot.is_due(now)), self._first_slot)
        for slot in self._slots if self._was_any_ready else [self._first_slot]:
            if slot.is_due(now):
                slot.start(now)

    def _publish_status(self, now: float) -> None:
        statuses = (slot.child.status(now) for slot in self._slots if slot.child is not None)
        self._status = ServiceStatus(
            workers=tuple(each for each in statuses if each is not None),
            wanted=self._config.processes,
            is_stopping=self._exit_reason is not None,
            deaths=self._deaths,
            ended_summary=self._ended_summary,
        )

    def _result(self) -> SupervisorResult | None:
        reason = (
            ExitReason.DRAINED
            if self._exit_reason is None and all(slot.is_done for slot in self._slots)
            else self._exit_reason
        )
        if reason is None or not all(slot.is_empty for slot in self._slots):
            return None
        return SupervisorResult(reason=reason, summary=self._ended_summary, deaths=self._deaths, killed=self._killed)
