from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure
from tests.cli.shell import Shell, unwanted_variables
from tests.cli.terminal import Terminal


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove environment variables that influence a command."""
    for name in unwanted_variables():
        monkeypatch.delenv(name)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path)
    yield shell
    shell.clear_away()


@pytest.fixture
def made(shell: Shell) -> Shell:
    """A shell in a folder with a store."""
    shell.run("migrate")
    return shell


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.clear_away()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[tenure.Jobs]:
    """The store in the folder of the test."""
    with tenure.Jobs(f"sqlite:///{tmp_path / 'tenure.db'}?synchronous=normal&timeout=30") as jobs:
        jobs.stats()
        yield jobs
