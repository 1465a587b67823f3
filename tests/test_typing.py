"""The public surface has the types that it says it has."""

from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[1]


def test_every_awaited_verb_has_the_types_of_its_twin() -> None:
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    report, errors, _ = api.run([*settings, str(ROOT / "tests/typed/aio.py")])

    assert (report, errors) == ("", "")
