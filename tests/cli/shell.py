"""A user at a shell, in a folder: commands typed, and what came of them."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tenure
from tenure.cli.program import run


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        """What was printed as JSON lines."""
        return [json.loads(line) for line in self.lines]


@dataclass(frozen=True, slots=True)
class Shell:
    """The present folder is that of the test, and there is no `$TENURE_URL`."""

    folder: Path

    def run(self, *arguments: str) -> Result:
        """Run tenure here, in this process: quick."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), self._as_a_process():
            code = run(arguments)
        return Result(code, out.getvalue(), err.getvalue())

    @contextmanager
    def _as_a_process(self) -> Iterator[None]:
        """Leave of what a command does to this process no more than one of its own would."""
        path, root = [*sys.path], logging.getLogger()
        handlers, level = [*root.handlers], root.level
        try:
            yield
        finally:
            sys.path[:] = path
            root.handlers[:] = handlers
            root.setLevel(level)
            for name, module in [*sys.modules.items()]:
                if (getattr(module, "__file__", None) or "").startswith(str(self.folder)):
                    del sys.modules[name]

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """Start tenure as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "tenure.cli", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **options.pop("env", {})},
            **options,
        )

    def jobs(self) -> tenure.Jobs:
        """Open the store of this folder."""
        return tenure.Jobs(f"sqlite:///{self.folder / 'tenure.db'}?synchronous=normal")

    def write(self, name: str, text: str) -> Path:
        """Write a file here."""
        path = self.folder / name
        path.write_text(text)
        return path
