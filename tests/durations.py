"""Write the durations of the tests to a file: the slowest tests with their reasons, and the sum per folder.

The reason is the first line of the test's docstring.
"""

from collections import defaultdict
from heapq import nlargest
from pathlib import Path, PurePath

import pytest

SLOWEST = 50
LONG = 3.0
"""Seconds above which a test must give a reason."""
WHY = "why"


class Durations:
    """Collect the reports of all processes of a run, and write the file at the end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        self._reasons.update((report.nodeid, str(value)) for name, value in report.user_properties if name == WHY)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._file.write_text("\n".join([*self._slowest(), "", *self._folders(), ""]), "utf-8")
        terminalreporter.write_line(f"durations: {self._file}")

    def _slowest(self) -> list[str]:
        lines = [f"The slowest {SLOWEST} tests, in seconds:"]
        for test, seconds in nlargest(SLOWEST, self._seconds.items(), key=lambda each: each[1]):
            lines.append(f"{seconds:8.1f}  {test}")
            if seconds > LONG:
                lines.append(f"          {self._reasons.get(test, 'no reason in the docstring')}")
        return lines

    def _folders(self) -> list[str]:
        tests: defaultdict[PurePath, list[float]] = defaultdict(list)
        for test, seconds in self._seconds.items():
            tests[PurePath(test.partition("::")[0]).parent].append(seconds)
        ranked = sorted(tests.items(), key=lambda each: -sum(each[1]))
        return [
            "Sum in seconds and number of tests per folder:",
            *(f"{sum(each):8.1f}  {len(each):6}  {folder}" for folder, each in ranked),
            f"{sum(self._seconds.values()):8.1f}  {len(self._seconds):6}  total",
        ]


def pass_on_reason(item: pytest.Item) -> None:
    """Attach the first line of the docstring to the reports of a test, so that it reaches the main process."""
    text = getattr(getattr(item, "obj", None), "__doc__", None)
    if text:
        item.user_properties.append((WHY, text.strip().splitlines()[0]))
