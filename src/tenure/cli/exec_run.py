"""Run a command for one claim: keep the lease while the command runs, then settle the job by the exit code."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tenure.backends.shared.isolation import StatementRejected
from tenure.cli.exec_process import MAX_OUTPUT_BYTES, CommandResult, ExecProcess
from tenure.cli.exit_codes import error_line, print_error
from tenure.cli.json_output import to_json_value
from tenure.cli.signals import Signals, is_from_terminal
from tenure.client.claim import TAKEN_OVER, Claim
from tenure.client.keeper import ticks
from tenure.client.row_claim import TableClaim
from tenure.client.run import StopReason
from tenure.core import transitions
from tenure.core.answers import Retry
from tenure.core.checks import replace_unstorable
from tenure.core.error_summary import summarize_exception
from tenure.core.job import Outcome
from tenure.core.operations import Settlement
from tenure.core.payload import MAX_JSON_BYTES, encode
from tenure.errors import ClaimLost, ConfigurationError, StoreUnavailable, TenureError
from tenure.signals import SIGNALS

RETRY_EXIT_CODE = 75
"""Exit code that asks for a retry: EX_TEMPFAIL in sysexits.h."""
KILL_DELAY = 10.0
"""Seconds from SIGTERM to SIGKILL for a command that has to stop."""
SETTLE_TIMEOUT = 30.0
"""Seconds for which a settlement is retried while the store is unavailable."""
GROUP_SIGNAL_DELAY = 0.1
"""Seconds to wait for a signal to our process group that has already ended the command."""
LOST = "lost"
"""The claim was lost, and nothing was written."""
UNRECORDED = "unrecorded"
"""The job stays running until its lease expires: it is locked, or its table rejects the outcome."""
CHECK_INTERVAL = 0.5
"""Longest time in seconds between two checks of the claim: the keeper thread may report a loss late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecConfig:
    """The command to run for each job, and the meaning of its exit codes."""

    command: tuple[str, ...]
    grace: float
    give_up_on: frozenset[int]
    keeps_result: bool
    url: str | None


class ExecRun:
    """Runs the command for one claim, once, in the main thread. `reason` says briefly why the run ended so.

    The command does not run for a row whose work is already done, or whose `done_if` raises.
    """

    def __init__(self, claim: Claim, config: ExecConfig, signals: Signals) -> None:
        self._claim = claim
        self._config = config
        self._signals = signals
        self.reason = ""
        self.was_done = False
        self._stop_reason: StopReason | None = None
        self._outcome: Outcome | None = None
        claim.lease.on_lost_or_cancelled = lambda _: signals.wake()

    def run(self) -> str:
        """Return the outcome, `LOST` or `UNRECORDED`."""
        try:
            with self._claim:
                settlement = self._settlement_without_run() or self._settlement(self._run_command())
                self._settle(settlement)
        except ClaimLost as exc:
            print_error(error_line(exc))
            return LOST
        except (ConfigurationError, StoreUnavailable) as exc:
            if self._outcome is None:
                raise
            if isinstance(exc, StoreUnavailable) and self._claim.unsettled is None:
                raise StoreUnavailable(
                    f"the command for job {self._claim.id!r} has ended, but its outcome ({self._outcome}) is not "
                    f"recorded: store unavailable for {SETTLE_TIMEOUT:g} s: {exc}; the job runs again after its lease "
                    "has expired"
                ) from exc
            # Locked, or rejected by its table: other jobs can be run.
            self.reason = " ".join(str(exc).split())
            if self._claim.is_settled:
                return Outcome.FAILED
            print_error(self.reason)
            return UNRECORDED
        return settlement.outcome

    def _settlement_without_run(self) -> Settlement | None:
        """Return the settlement of a row whose work is done, or whose `done_if` raises; None to run the command."""
        claim = self._claim
        if not isinstance(claim, TableClaim) or not claim.claimed_row.context.has_done_check:
            return None
        try:
            self.was_done = claim.already_done()
        except Exception as exc:
            # Other errors of tenure, and an invalid statement, concern every row.
            if isinstance(exc, TenureError) and (not isinstance(exc, StatementRejected) or exc.is_invalid):
                with suppress(TenureError):
                    claim.release()
                raise
            self.reason = f"done_if raised {summarize_exception(exc)}"
            return claim.settlement_for_error(exc)
        return claim.completion() if self.was_done else None

    def _run_command(self) -> CommandResult:
        try:
            command = ExecProcess(
                self._config.command,
                environment=self._environment(),
                payload=f"{encode(to_json_value(self._claim.job.payload), 'payload')}\n",
                keeps_output=self._config.keeps_result,
            )
        except OSError as exc:
            with suppress(TenureError):
                self._claim.release()
            raise ConfigurationError(f"cannot run {self._config.command[0]!r}: {exc.strerror}") from None
        with command:
            self._watch(command)
            return command.wait()

    def _environment(self) -> dict[str, str]:
        claim, job = self._claim, self._claim.job
        hold = {"id": claim.id, "fence": claim.fence, "token": claim.token}
        return {
            "TENURE_ID": claim.id,
            "TENURE_FENCE": str(claim.fence),
            "TENURE_TOKEN": claim.token,
            "TENURE_CLAIM": json.dumps(hold, separators=(",", ":")),
            "TENURE_ATTEMPT": str(job.attempts),
            "TENURE_TYPE": job.type,
            "TENURE_QUEUE": job.queue,
            **({} if self._config.url is None else {"TENURE_URL": self._config.url}),
        }

    def _watch(self, command: ExecProcess) -> None:
        """Wait until the command has ended. Stop it on a lost claim, a cancel, a signal or its time limit."""
        timeout = self._claim.job.timeout
        limit_at = None if timeout is None else ticks() + timeout
        kill_at: float | None = None
        while command.is_running():
            now = ticks()
            stop = self._reason_to_stop(now, limit_at)
            # A lost claim overrides an earlier reason: the command must not run on through a long grace period.
            if stop is not None and (
                self._stop_reason is None or (stop is StopReason.LOST and self._stop_reason is not StopReason.LOST)
            ):
                self._stop_reason = stop
                kill_at = now + (self._config.grace if stop is StopReason.SHUTDOWN else KILL_DELAY)
                if not (stop is StopReason.SHUTDOWN and is_from_terminal(self._signals.received[0])):
                    command.terminate()
            if len(self._signals.received) > 1 or (kill_at is not None and now >= kill_at):
                command.kill()
            next_at = kill_at if kill_at is not None else limit_at
            self._signals.wait(
                CHECK_INTERVAL if next_at is None or next_at <= now else min(CHECK_INTERVAL, next_at - now)
            )
        # Ctrl-C goes to the whole process group and may end the command before this process has handled the signal.
        until = ticks() + GROUP_SIGNAL_DELAY
        while command.ending_signal() in SIGNALS and not self._signals.received and (now := ticks()) < until:
            self._signals.wait(until - now)
        if self._stop_reason is None and self._signals.received:
            self._stop_reason = StopReason.SHUTDOWN

    def _reason_to_stop(self, now: float, limit_at: float | None) -> StopReason | None:
        if self._claim.is_lost:
            return StopReason.LOST
        if self._claim.cancel_requested:
            return StopReason.CANCEL
        if self._signals.received:
            return StopReason.SHUTDOWN
        return StopReason.TIME_LIMIT if limit_at is not None and now >= limit_at else None

    def _settlement(self, result: CommandResult) -> Settlement:
        """Return the settlement for an exit code and, if the command was stopped, for the reason."""
        self.reason = result.summary if self._stop_reason is None else f"{self._stop_reason}; {result.summary}"
        claim, hold = self._claim, self._claim.lease.hold
        if self._stop_reason is StopReason.LOST:
            raise claim.lost_error(TAKEN_OVER if claim.lease.is_over else "its lease could not be extended in time")
        if self._stop_reason is StopReason.TIME_LIMIT:
            return claim.failure(f"time limit of {claim.job.timeout:g} s exceeded: {result}")
        if result.code == 0:
            return self._completion(result)
        if self._stop_reason is StopReason.CANCEL:
            return transitions.build_cancellation(hold, f"{self._stop_reason}; {result.summary}")
        return transitions.build_release(hold) if self._stop_reason is StopReason.SHUTDOWN else self._failure(result)

    def _failure(self, result: CommandResult) -> Settlement:
        claim = self._claim
        if result.code in self._config.give_up_on:
            return claim.failure(str(result), final=True)
        if result.code == RETRY_EXIT_CODE:
            return claim.settlement_for_error(Retry(why=str(result)))
        return claim.failure(str(result))

    def _completion(self, result: CommandResult) -> Settlement:
        hold = self._claim.lease.hold
        if not self._config.keeps_result:
            return transitions.build_completion(hold)
        if result.output is None:
            print_error(f"result of job {hold.id!r} dropped: more than {MAX_OUTPUT_BYTES:,} bytes")
            return transitions.build_completion_without_result(hold)
        settlement, mistake = self._claim.settlement_for_result(parse_result(result.output))
        if mistake is not None:
            print_error(error_line(mistake))
        elif settlement.result_dropped:
            print_error(f"result of job {hold.id!r} dropped: more than {MAX_JSON_BYTES:,} bytes of JSON")
        return settlement

    def _settle(self, settlement: Settlement) -> None:
        """Settle the claim; retry while the store is unavailable. Leaving the claim's block sends it a last time."""
        self._outcome = settlement.outcome
        until = ticks() + SETTLE_TIMEOUT
        is_reported = False
        while True:
            try:
                return self._claim.settle(settlement)
            except StoreUnavailable as exc:
                if ticks() >= until or len(self._signals.received) > 1:
                    return None
                if not is_reported:
                    problem = "store unavailable" if self._claim.unsettled is None else "job locked"
                    print_error(f"{problem}, retrying for {SETTLE_TIMEOUT:g} s: {error_line(exc)}")
                is_reported = True
            self._signals.wait(CHECK_INTERVAL)


def parse_result(output: bytes) -> Any:
    """Return the output of a command as a job result: parsed JSON, else text; None if there is no output."""
    text = replace_unstorable(output.decode(errors="replace")).rstrip("\r\n")
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return text or None


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")
