"""The benchmarks run; the tests do not check speed."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.tiers import only_in_all

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@only_in_all
def test_a_smoke_run_reports_every_measure_and_leaves_nothing_behind(tmp_path: Path) -> None:
    kept = {path: path.read_bytes() for path in RESULTS.iterdir()}

    ran = bench("embedded", "--only", "memory", "--quick", "--folder", str(tmp_path))

    assert (ran.returncode, ran.stderr) == (0, "[bench] round 1 of 1\n")
    for name in ("memory", "claim 1", "claim 10", "claim 100", "enqueue 1", "enqueue 1,000"):
        assert name in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 100
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in RESULTS.iterdir()} == kept


@only_in_all
def test_a_smoke_run_of_the_worker_reports_speed_waits_and_costs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Slow: the benchmark starts each peer."""
    kept = {path: path.read_bytes() for path in RESULTS.iterdir()}

    ran = bench("worker", "--only", "memory-async,sqlite-sync", "--quick", "--folder", str(tmp_path))

    assert (ran.returncode, ran.stderr) == (0, "[bench] round 1 of 1\n[bench] where the time goes\n")
    for name in ("memory-async", "sqlite-sync", "jobs a second", "waited", "claimer", "handlers", "wall"):
        assert name in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 100
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in RESULTS.iterdir()} == kept


@only_in_all
def test_a_smoke_run_on_postgres_reports_every_round_and_leaves_nothing_behind() -> None:
    """Slow: the benchmark starts a server and each peer."""
    kept = {path: path.read_bytes() for path in RESULTS.iterdir()}

    with TemporaryDirectory(prefix="tenure-") as folder:
        # The account of the server needs access to the folder, and to no parent folder.
        Path(folder).chmod(0o711)
        ran = bench("postgres", "--only", "raw-300,tenure", "--quick", "--folder", folder)
        left = list(Path(folder).iterdir())

    assert (ran.returncode, ran.stderr) == (0, "[bench] round 1 of 1\n")
    for name in ("fsync on", "raw-300", "tenure of raw-300", "round 1", "client", "enqueue 1", "enqueue 1,000"):
        assert name in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 100
    assert left == []
    assert {path: path.read_bytes() for path in RESULTS.iterdir()} == kept


@only_in_all
def test_a_smoke_run_on_redis_reports_every_measure_and_leaves_nothing_behind() -> None:
    """Slow: the benchmark starts a server and each peer."""
    kept = {path: path.read_bytes() for path in RESULTS.iterdir()}

    with TemporaryDirectory(prefix="tenure-") as folder:
        # Socket paths must be short.
        ran = bench("redis", "--only", "raw,tenure", "--quick", "--folder", folder)
        left = list(Path(folder).iterdir())

    assert (ran.returncode, ran.stderr) == (0, "[bench] round 1 of 1\n[bench] how long scripts block the server\n")
    for name in ("appendfsync always", "of raw", "drain", "waited", "enqueue 1,000", "queued", "watch", "tries"):
        assert name in ran.stdout
    for name in ("claim 100, as many promoted and reaped", "find nothing", "purge 100", "+ 1,000 finished"):
        assert name in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 100
    assert left == []
    assert {path: path.read_bytes() for path in RESULTS.iterdir()} == kept


@only_in_all
def test_a_smoke_run_of_the_memory_reads_it_ten_times_with_and_without_failures(tmp_path: Path) -> None:
    """Slow: a worker runs twice for several seconds."""
    ran = bench("memory", "--quick", "--folder", str(tmp_path))

    assert ran.returncode == 0, ran.stderr
    for name in ("all succeed", "1 of 20 fails", "after 100 jobs", "after 1,000 jobs", "grown since the first"):
        assert name in ran.stdout
    assert "–" not in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_contestant_that_does_not_exist_is_refused_with_the_nearest() -> None:
    ran = bench("embedded", "--only", "memroy", "--quick")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "did you mean 'memory'" in ran.stderr
