"""A supervisor as a test has it in hand: in a thread, or in a process that can be sent signals."""

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
        """Return the processes of the workers that work."""
        return [each.pid for each in self.condition.workers if each.is_ready and not each.is_stopping]

    def ready(self, number: int = 1) -> list[int]:
        """Wait until so many workers work, and return their processes."""
        return until(lambda: pids if len(pids := self.pids()) == number else [])

    def other_than(self, *pids: int) -> int:
        """Wait until a worker works that is none of these, and return its process."""
        return until(lambda: next((pid for pid in self.pids() if pid not in pids), 0))

    def ending(self) -> SupervisorResult:
        """Return how it ended, when it has."""
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
    """Give a supervisor that runs; on leaving, it and its children are gone."""
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
        """Return how it says that it ended, when it has."""
        printed, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0
        return dict(json.loads(printed))


@contextmanager
def office_on(stage: Stage, options: dict[str, Any], **told: Any) -> Iterator[Office]:
    """Give a supervisor in a process; on leaving it is gone, and its children go."""
    office = Office(stage, options, told)
    try:
        yield office
    finally:
        office.process.kill()
        office.process.communicate()
        # Should handlers still hold, their workers would wait for them.
        stage.gate.touch()
