"""Type checkers accept correct uses of the public API and reject mistakes."""

import subprocess
import sys
from pathlib import Path

from mypy import api

from tests.tiers import only_in_all

ROOT = Path(__file__).parents[1]
TYPED = ROOT / "tests" / "typed"


@only_in_all
def test_mypy_sees_the_types_and_the_mistakes() -> None:
    """Slow: mypy checks the package without a cache."""
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    report, errors, _ = api.run([*settings, str(TYPED)])

    assert (report, errors) == ("", "")


@only_in_all
def test_pyright_sees_the_types_and_the_mistakes() -> None:
    """Slow: pyright checks the package."""
    command = [sys.executable, "-m", "basedpyright", "-p", str(TYPED), "--pythonpath", sys.executable]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert checked.stdout.strip().splitlines()[-1] == "0 errors, 0 warnings, 0 notes", checked.stdout + checked.stderr
