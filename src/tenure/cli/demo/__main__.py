"""The demo as a command: arguments, signals, exit codes.

0: all lines of the report hold. 1: a line does not hold, or the demo failed. 2: the demo cannot run on this system, or
not with these arguments. 130, 143 and the like: ended by a signal.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import tenure
from tenure.cli.demo.crew import WORKERS, WorkerFailed, short_url, start_workers, url_of
from tenure.cli.demo.report import ReportLine, build_report
from tenure.cli.demo.screen import JsonScreen, Screen
from tenure.cli.demo.story import Story, StoryTimeout
from tenure.cli.demo.traces import create_receipts
from tenure.signals import SIGNALS, StopSignals

STORE_FILE = "demo.db"
SHORT_LOCK_TIMEOUT = 0.5
"""Seconds to wait for other writers while one of them may be frozen."""


class DemoUnavailable(Exception):  # noqa: N818 - named after the fact
    """The demo cannot run here."""


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    keep: Path | None = options.keep
    if sys.platform == "win32":
        return print_error(
            DemoUnavailable("the demo freezes processes, which Windows does not support; run it on Linux or macOS"), 2
        )
    # The standard output may be closed; then print nothing.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        with raise_on_signals(), store_folder(keep) as folder:
            return run_demo(folder / STORE_FILE, JsonScreen() if options.json else Screen(), is_kept=keep is not None)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except DemoUnavailable as exc:
        return print_error(exc, 2)
    except (WorkerFailed, StoryTimeout, tenure.TenureError) as exc:
        return print_error(exc, 1)
    except OSError as exc:
        # Drop the buffer that could not be written, or Python writes it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1 if isinstance(exc, BrokenPipeError) else print_error(exc, 1)


def run_demo(path: Path, screen: Screen, *, is_kept: bool) -> int:
    """Run the demo on a new store in this file; return the exit code."""
    screen.print_line(f"A supervisor runs {WORKERS} workers, which race for the jobs in one SQLite file.", "bold")
    screen.print_line("Each job writes a receipt in the transaction that completes the job.", "bold")
    screen.print_line("")
    prepare(path)
    with tenure.Jobs(url_of(path)) as jobs, tenure.Jobs(url_of(path, timeout=SHORT_LOCK_TIMEOUT)) as short_timeout_jobs:
        with start_workers(path) as group, screen.live():
            facts = Story(jobs, short_timeout_jobs, path, group, screen).play()
        lines = build_report(jobs, path, facts)
    code = print_report(screen, lines)
    if is_kept:
        screen.print_line(f"The store is kept. Inspect it with: tenure stats --url {short_url(path)}")
    screen.print_line("Next: docs/tutorial.md for a first worker, README.md for the idea,")
    screen.print_line("docs/guarantees.md for the guarantees and their tests.")
    return code


def print_report(screen: Screen, lines: Sequence[ReportLine]) -> int:
    """Print the report; return the exit code."""
    screen.print_line("\nThe result, counted in the store:", "bold")
    screen.print_report(lines)
    wrong = sum(not line.holds for line in lines)
    if wrong:
        screen.print_line(f"\n{wrong} of {len(lines)} lines do not hold.", "bold red")
        return 1
    screen.print_line(f"\nAll {len(lines)} lines hold.", "bold green")
    return 0


def prepare(path: Path) -> None:
    """Create a store in this file, with an empty table of receipts."""
    try:
        with tenure.Jobs(url_of(path)) as jobs:
            jobs.stats()
        create_receipts(path)
    except (tenure.TenureError, ImportError) as exc:
        raise DemoUnavailable(str(exc)) from exc


@contextmanager
def store_folder(keep: Path | None) -> Iterator[Path]:
    """Yield the folder for the store: `keep`, or a temporary folder."""
    if keep is None:
        try:
            temporary = tempfile.TemporaryDirectory(prefix="tenure-demo-", ignore_cleanup_errors=True)
        except OSError as exc:
            raise DemoUnavailable(f"cannot create a temporary folder: {exc.strerror}; use --keep FOLDER") from exc
        with temporary as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise DemoUnavailable(f"cannot create folder {str(keep)!r}: {exc.strerror}") from exc
    if (keep / STORE_FILE).exists():
        raise DemoUnavailable(f"{str(keep / STORE_FILE)!r} already exists; remove it, or use another folder")
    yield keep.resolve()


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Make stop signals raise an exception, so that processes and files are cleaned up."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        # A second signal would interrupt the clean-up.
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    signals = StopSignals(end)
    try:
        yield
    finally:
        signals.restore()


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; exit if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="tenure.cli.demo",
        description="Watch workers race for jobs: one is killed and replaced, one is frozen and resumes too late.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help=f"keep the store, in the file {STORE_FILE}, and the log in FOLDER"
    )
    parser.add_argument("--json", action="store_true", help="print only the report, as JSON lines")
    return parser.parse_args(arguments)


def print_error(error: Exception, code: int) -> int:
    print(f"tenure demo: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
