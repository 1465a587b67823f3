"""The command: arguments, signals, exit codes.

0: all lines hold. 1: one does not, or the demo could not be played to its end. 2: it cannot be played here, or not
with these arguments. 130, 143 and the like: ended by a signal.
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
from tenure.cli.demo.crew import WORKERS, WorkerFailed, crew_on, place_of, url_of
from tenure.cli.demo.report import Line, examine
from tenure.cli.demo.screen import Records, Screen
from tenure.cli.demo.story import Story, StoryHangs
from tenure.cli.demo.traces import create_receipts
from tenure.signals import SIGNALS, StopSignals

FILE = "demo.db"
HASTE = 0.5
"""Seconds that this process waits for other writers when one of them may be frozen by it."""


class Unplayable(Exception):  # noqa: N818 - it names the fact
    """Why there can be no demo here."""


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    keep: Path | None = options.keep
    if sys.platform == "win32":
        return complain(Unplayable("this freezes processes, which Windows cannot; see it on Linux or macOS"), 2)
    # Whoever closed it does not want to see anything.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        with signals_raised(), folder(keep) as place:
            return show(place / FILE, Records() if options.json else Screen(), is_kept=keep is not None)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Unplayable as exc:
        return complain(exc, 2)
    except (WorkerFailed, StoryHangs, tenure.TenureError) as exc:
        return complain(exc, 1)
    except OSError as exc:
        # What stands in the buffer could not be written, and is not to be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1 if isinstance(exc, BrokenPipeError) else complain(exc, 1)


def show(path: Path, screen: Screen, *, is_kept: bool) -> int:
    """Play the demo on a new store in this file; return the exit code."""
    screen.say(f"Jobs in one SQLite file, and a supervisor with {WORKERS} workers that race for them.", "bold")
    screen.say("The effect of a job is a receipt, written in the transaction that completes it.", "bold")
    screen.say("")
    prepare(path)
    with tenure.Jobs(url_of(path)) as jobs, tenure.Jobs(url_of(path, timeout=HASTE)) as hasty:
        with crew_on(path) as crew, screen.live():
            played = Story(jobs, hasty, path, crew, screen).play()
        lines = examine(jobs, path, played)
    code = conclude(screen, lines)
    if is_kept:
        screen.say(f"The store is kept; look into it with: tenure stats --url {place_of(path)}")
    screen.say("Next: docs/tutorial.md leads from nothing to a worker; README.md has the idea,")
    screen.say("docs/guarantees.md what is promised and which tests hold it.")
    return code


def conclude(screen: Screen, lines: Sequence[Line]) -> int:
    """Show what was found; return the exit code."""
    screen.say("\nWhat the store says now:", "bold")
    screen.tabulate(lines)
    wrong = sum(not line.holds for line in lines)
    if wrong:
        screen.say(f"\nNot as promised: {wrong} of {len(lines)} lines.", "bold red")
        return 1
    screen.say(f"\nAll {len(lines)} lines hold.", "bold green")
    return 0


def prepare(path: Path) -> None:
    """Make a store in this file, and an empty table of receipts in it."""
    try:
        with tenure.Jobs(url_of(path)) as jobs:
            jobs.stats()
        create_receipts(path)
    except (tenure.TenureError, ImportError) as exc:
        raise Unplayable(str(exc)) from exc


@contextmanager
def folder(keep: Path | None) -> Iterator[Path]:
    """Give the folder for the store: the one that is to be kept, or one that is gone afterwards."""
    if keep is None:
        try:
            temporary = tempfile.TemporaryDirectory(prefix="tenure-demo-", ignore_cleanup_errors=True)
        except OSError as exc:
            raise Unplayable(f"there is no folder for temporary files: {exc.strerror}; use --keep FOLDER") from exc
        with temporary as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise Unplayable(f"{str(keep)!r} cannot be made: {exc.strerror}") from exc
    if (keep / FILE).exists():
        raise Unplayable(f"{str(keep / FILE)!r} is there already; remove it, or name another folder")
    yield keep.resolve()


@contextmanager
def signals_raised() -> Iterator[None]:
    """Have signals that would end this process raise instead, so that nothing is left behind."""

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


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what was asked for; end the program if the arguments make no sense."""
    parser = argparse.ArgumentParser(
        prog="tenure.cli.demo",
        description="Show it at work: workers race; one is killed and replaced, one is frozen and comes back too late.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help=f"leave the store there, in the file {FILE}, and the log"
    )
    parser.add_argument("--json", action="store_true", help="print only what the store says in the end, as JSON lines")
    return parser.parse_args(arguments)


def complain(why: Exception, code: int) -> int:
    print(f"tenure.cli.demo: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
