"""What importing tenure does, and what its public names are."""

import subprocess
import sys

import tenure

HEAVY = {"asyncio", "click", "rich", "sqlite3", "psycopg", "redis", "pytest", "hypothesis", "socket", "ssl"}
HEAVY |= {"cronsim", "zoneinfo"}


def test_importing_tenure_imports_no_driver_and_no_command_line() -> None:
    code = "import sys, tenure; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert HEAVY.isdisjoint(loaded)
    assert "tenure.jobs" in loaded
    assert "tenure.backends.memory" not in loaded


def test_every_public_name_is_there() -> None:
    assert all(hasattr(tenure, name) for name in tenure.__all__)
    assert tenure.__all__ == sorted(tenure.__all__)


def test_every_error_is_a_tenure_error_and_public() -> None:
    errors = vars(tenure.errors).values()
    kinds = [each for each in errors if isinstance(each, type) and issubclass(each, tenure.TenureError)]

    assert {each.__name__ for each in kinds} <= set(tenure.__all__)
