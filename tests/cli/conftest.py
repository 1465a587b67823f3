from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENURE_URL", raising=False)
    return Shell(tmp_path)


@pytest.fixture
def made(shell: Shell) -> Shell:
    """A shell in a folder that has a store."""
    shell.run("migrate")
    return shell
