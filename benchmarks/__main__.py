"""The command: `./dev bench`."""

import argparse
import math
import sys
import tempfile
from pathlib import Path

from benchmarks import embedded
from benchmarks.contestants.field import FIELD, chosen
from benchmarks.report import show
from tenure import TenureError

BENCHMARKS = {"embedded": embedded.measure}
ROUNDS, SECONDS = 3, 1.5
QUICK_ROUNDS, QUICK_SECONDS = 1, 0.05


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    try:
        contestants = chosen([name for name in options.only.split(",") if name])
        run = BENCHMARKS[options.name](contestants, rounds=rounds, seconds=seconds, folder=options.folder, say=say)
    except TenureError as exc:
        say(str(exc))
        return 2
    show(run, contestants)
    if not options.quick:
        say(f"every number is in {run.save().name}")
    return 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure jobs per second, beside others.")
    parser.add_argument("name", nargs="?", default="embedded", choices=BENCHMARKS, help="what to measure")
    parser.add_argument(
        "--only",
        default="",
        metavar="A,B",
        help=f"leave out all contestants but these; there are {', '.join(each.name for each in FIELD)}",
    )
    parser.add_argument("--rounds", type=whole, help=f"how often each is measured ({ROUNDS})")
    parser.add_argument("--seconds", type=positive, help=f"how long each time ({SECONDS})")
    parser.add_argument("--quick", action="store_true", help="only see that it runs; nothing is written")
    parser.add_argument(
        "--folder",
        type=folder,
        default=Path(tempfile.gettempdir()),
        help="where the files are made and removed (the system's temporary folder)",
    )
    return parser.parse_args(arguments)


def whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def positive(text: str) -> float:
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def say(message: str) -> None:
    print(f"[bench] {message}", file=sys.stderr)


def folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return Path(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
