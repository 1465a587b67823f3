"""The command `./dev bench`."""

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import embedded, memory, report, startup
from benchmarks.choosing import Named, chosen
from benchmarks.contestants.field import FIELD
from benchmarks.postgres import measuring as postgres
from benchmarks.postgres import report as postgres_report
from benchmarks.postgres.field import FIELD as ON_POSTGRES
from benchmarks.readings import Result
from benchmarks.redis import measuring as redis
from benchmarks.redis import report as redis_report
from benchmarks.redis.field import FIELD as ON_REDIS
from benchmarks.worker import measuring as worker
from benchmarks.worker import report as worker_report
from benchmarks.worker.field import FIELD as WORKERS
from tenure import TenureError

ROUNDS, QUICK_ROUNDS = 3, 1
POSTGRES_ROUNDS = 5
SECONDS, QUICK_SECONDS = 1.5, 0.05
DRAINED, QUICK_DRAINED = 20_000, 200
POSTGRES_DRAINED, QUICK_POSTGRES_DRAINED = 50_000, 1_000
SINGLES, QUICK_SINGLES = 2_000, 20
WAITED, QUICK_WAITED = 200, 3
STARTS = 15
RUN, QUICK_RUN = 1_000_000, 1_000
ON_REDIS_SCALE = redis.Scale(
    rounds=ROUNDS, singles=2_000, waited=35, contended={"watch": 800, "tenure": 8_000}, stored=100_000, repeats=10
)
QUICK_ON_REDIS = redis.Scale(
    rounds=QUICK_ROUNDS,
    jobs=200,
    singles=20,
    waited=2,
    contended={"watch": 20, "tenure": 20},
    stored=1_000,
    batch=100,
    repeats=2,
)
LONGEST_RUN = 180.0
"""Maximum seconds of a run of the memory benchmark."""


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    try:
        result = BENCHMARKS[options.name](options)
    except TenureError as exc:
        say(str(exc))
        return 2
    if not options.quick:
        say(f"all numbers: {result.save().name}")
    return 0


def bench_embedded(options: argparse.Namespace) -> Result:
    contestants = chosen(options.only, FIELD)
    run = embedded.measure(
        contestants,
        rounds=options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS),
        seconds=options.seconds or (QUICK_SECONDS if options.quick else SECONDS),
        folder=options.folder,
        say=say,
    )
    report.show(run, contestants)
    return run


def bench_worker(options: argparse.Namespace) -> Result:
    contestants = chosen(options.only, WORKERS)
    run = worker.measure(
        contestants,
        rounds=options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS),
        jobs=options.jobs or (QUICK_DRAINED if options.quick else DRAINED),
        waited=QUICK_WAITED if options.quick else WAITED,
        folder=options.folder,
        say=say,
    )
    worker_report.show(run, contestants)
    return run


def bench_postgres(options: argparse.Namespace) -> Result:
    contestants = chosen(options.only, ON_POSTGRES)
    run = postgres.measure(
        contestants,
        rounds=options.rounds or (QUICK_ROUNDS if options.quick else POSTGRES_ROUNDS),
        jobs=options.jobs or (QUICK_POSTGRES_DRAINED if options.quick else POSTGRES_DRAINED),
        singles=QUICK_SINGLES if options.quick else SINGLES,
        folder=options.folder,
        say=say,
    )
    postgres_report.show(run, contestants)
    return run


def bench_redis(options: argparse.Namespace) -> Result:
    contestants = chosen(options.only, ON_REDIS)
    scale = QUICK_ON_REDIS if options.quick else ON_REDIS_SCALE
    scale = replace(scale, rounds=options.rounds or scale.rounds, jobs=options.jobs or scale.jobs)
    run = redis.measure(contestants, scale, folder=options.folder, say=say)
    redis_report.show(run, contestants)
    return run


def bench_memory(options: argparse.Namespace) -> Result:
    result = memory.measure(
        jobs=options.jobs or (QUICK_RUN if options.quick else RUN),
        seconds=options.seconds or LONGEST_RUN,
        folder=options.folder,
        say=say,
    )
    memory.show(result)
    return result


def bench_startup(options: argparse.Namespace) -> Result:
    result = startup.measure(
        rounds=options.rounds or (QUICK_ROUNDS if options.quick else STARTS), folder=options.folder, say=say
    )
    startup.show(result)
    return result


BENCHMARKS = {
    "embedded": bench_embedded,
    "worker": bench_worker,
    "postgres": bench_postgres,
    "redis": bench_redis,
    "memory": bench_memory,
    "startup": bench_startup,
}


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description="Measure jobs per second, and compare with other queues."
    )
    parser.add_argument(
        "name", nargs="?", default="embedded", choices=BENCHMARKS, help="the benchmark to run (embedded)"
    )
    parser.add_argument(
        "--only",
        default=[],
        type=lambda text: [name for name in text.split(",") if name],
        metavar="A,B",
        help=f"run only these contestants; embedded has {names(FIELD)}; worker has {names(WORKERS)}; "
        f"postgres has {names(ON_POSTGRES)}; redis has {names(ON_REDIS)}",
    )
    parser.add_argument(
        "--rounds",
        type=whole,
        help=f"number of rounds ({ROUNDS}, postgres {POSTGRES_ROUNDS}, startup {STARTS}); not for memory",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        help=f"embedded: seconds per measurement ({SECONDS}); memory: maximum seconds ({LONGEST_RUN:g})",
    )
    parser.add_argument(
        "--jobs",
        type=whole,
        help=f"worker: jobs per round ({DRAINED:,}); postgres: the same ({POSTGRES_DRAINED:,}); redis: the same "
        "(as many as the contestant runs in a few seconds); "
        f"memory: jobs in total ({RUN:,})",
    )
    parser.add_argument("--quick", action="store_true", help="only check that the benchmark runs; write no file")
    parser.add_argument(
        "--folder",
        type=folder,
        default=Path(tempfile.gettempdir()),
        help="folder for temporary files (the system's temporary folder)",
    )
    return parser.parse_args(arguments)


def names(field: Sequence[Named]) -> str:
    return ", ".join(each.name for each in field)


def whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1; use 1 or more")
    return number


def positive(text: str) -> float:
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number; use a number above 0")
    return number


def say(message: str) -> None:
    print(f"[bench] {message}", file=sys.stderr)


def folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder; use an existing folder")
    return Path(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
