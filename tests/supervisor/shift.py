"""Run a supervisor for a test: in a thread, or in a process that can receive signals."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tenure.service.status import ServiceStatus
from tenure.supervisor import Supervisor, SupervisorConfig, SupervisorResult
from tests.playing import ROOT
from tests.processes.stage import PATIENCE, Stage, until


class Shift:
    """A supervisor in a thread."""

    def __init__(self, plan: SupervisorConfig) -> None:
        self.supervisor = Supervisor(plan)
        self._ending: SupervisorResult | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def condition(self) -> ServiceStatus:
        return self.supervisor.status()

    def pids(self) -> list[int]:
        """Return the process ids of workers that are ready and not stopping."""
        return [each.pid for each in self.condition.workers if each.is_ready and not each.is_stopping]

    def ready(self, number: int = 1) -> list[int]:
        """Wait until exactly `number` workers are ready; return their process ids."""
        return until(lambda: pids if len(pids := self.pids()) == number else [])

    def other_than(self, *pids: int) -> int:
        """Wait until a worker with a process id not in `pids` is ready; return its process id."""
        return until(lambda: next((pid for pid in self.pids() if pid not in pids), 0))

    def ending(self) -> SupervisorResult:
        """Wait until the supervisor ends; return its result."""
        self._thread.join(PATIENCE)
        assert self._ending is not None, "the supervisor did not end"
        return self._ending

    def end(self) -> SupervisorResult:
        self.supervisor.stop()
        return self.ending()

    def _run(self) -> None:
        self._ending = self.supervisor.run()


@contextmanager
def shift_of(plan: SupervisorConfig) -> Iterator[Shift]:
    """Yield a running supervisor; stop the supervisor and its children on exit."""
    shift = Shift(plan)
    try:
        yield shift
    finally:
        shift.supervisor.stop(now=True)
        shift.ending()


class Office:
    """A supervisor in a process."""

    def __init__(self, stage: Stage, options: dict[str, Any], told: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "tests.supervisor.program", "supervise", str(stage.folder)]
        self.process = subprocess.Popen(
            [*command, json.dumps(options), json.dumps(told)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ending(self) -> dict[str, Any]:
        """Wait until the process ends; return the result that the supervisor printed."""
        printed, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0
        return dict(json.loads(printed))


@contextmanager
def office_on(stage: Stage, options: dict[str, Any], **told: Any) -> Iterator[Office]:
    """Yield a supervisor in a process; on exit kill the supervisor, so that its children stop."""
    office = Office(stage, options, told)
    try:
        yield office
    finally:
        office.process.kill()
        office.process.communicate()
        # Workers wait for handlers that still wait for the gate.
        stage.gate.touch()
