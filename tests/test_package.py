"""The effects of `import tenure`, and its public names."""

import subprocess
import sys

import pytest

import tenure
from tenure import errors

HEAVY = {"asyncio", "click", "rich", "sqlite3", "psycopg", "redis", "pytest", "hypothesis", "socket", "ssl"}
HEAVY |= {"cronsim", "zoneinfo"}


def test_importing_tenure_imports_no_driver_and_no_command_line() -> None:
    code = "import sys, tenure; tenure.Jobs; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert HEAVY.isdisjoint(loaded)
    assert "tenure.client.jobs" in loaded
    assert "tenure.backends.memory" not in loaded


def test_a_part_is_imported_when_it_is_used() -> None:
    code = "import sys, tenure; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert [name for name in loaded if name.startswith("tenure.")] == []


def test_every_public_name_is_there() -> None:
    assert all(hasattr(tenure, name) for name in tenure.__all__)
    assert tenure.__all__ == sorted(tenure.__all__)
    assert set(tenure.__all__) <= set(dir(tenure))


def test_a_name_that_is_not_public_is_told() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = getattr(tenure, "Nothing")  # noqa: B009 - mypy rejects the attribute


def test_every_error_is_a_tenure_error_and_public() -> None:
    found = vars(errors).values()
    kinds = [each for each in found if isinstance(each, type) and issubclass(each, tenure.TenureError)]

    assert {each.__name__ for each in kinds} <= set(tenure.__all__)
