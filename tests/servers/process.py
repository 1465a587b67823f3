"""Server processes: run under an unprivileged account, and ended with the tests.

A server runs in a separate session: Ctrl-C reaches only the tests, which then stop their servers in order. On Linux,
the kernel signals a server when its parent dies.
"""

import ctypes
import os
import pwd
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0
"""Seconds after which a wait fails."""

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Account:
    """The user and group that run a program; None means the current user."""

    user: int | None = None
    group: int | None = None

    @property
    def groups(self) -> list[int] | None:
        return None if self.user is None else []

    def own(self, path: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group, follow_symlinks=False)

    def run(self, *command: str | Path) -> None:
        """Run a program to its end; raise with its output if the program fails."""
        ran = subprocess.run(
            command,
            user=self.user,
            group=self.group,
            extra_groups=self.groups,
            env=environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"{command[0]} failed with {ran.returncode}:\n{ran.stdout}{ran.stderr}")


def unprivileged() -> Account:
    """Return an existing account other than root, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return Account()
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(found.pw_uid, found.pw_gid)
    raise RuntimeError(
        "PostgreSQL cannot run as root, and there is no user 'postgres' or 'nobody'; use another account"
    )


def environment() -> Mapping[str, str]:
    """Return the environment without variables that change the behaviour of a server or its programs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


class Process:
    """A server and its children. The server gets `last_signal` when its parent dies."""

    def __init__(self, command: Sequence[str | Path], account: Account, log: Path, last_signal: signal.Signals) -> None:
        # The children inherit the write end of the pipe. The read end reaches end of file when the last child has
        # ended.
        self._gone, held = os.pipe()
        with os.fdopen(held), log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                user=account.user,
                group=account.group,
                extra_groups=account.groups,
                env=environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(held,),
                start_new_session=True,
                preexec_fn=told_of_our_death(last_signal),  # noqa: PLW1509 - takes no locks; see the function
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self, number: signal.Signals) -> None:
        """Send a signal; return when the server and its children have ended. Call once."""
        self._process.send_signal(number)
        gone = select.poll()
        gone.register(self._gone, select.POLLIN)
        if not gone.poll(PATIENCE * 1000):
            raise RuntimeError(f"process {self.pid} or a child is still running {PATIENCE:g} s after {number.name}")
        self._process.wait(PATIENCE)
        os.close(self._gone)


def told_of_our_death(number: signal.Signals) -> Callable[[], None] | None:
    """Return a function for the child that requests a signal on the death of the parent; None except on Linux.

    Fork from the main thread: Linux sends the signal when the forking thread ends.
    """
    if sys.platform != "linux":
        return None
    # Code between fork and exec must not take locks. So look up all functions here, and use PyDLL, which calls a
    # function without releasing the GIL.
    prctl, parent, exit = ctypes.PyDLL(None).prctl, os.getpid(), os._exit

    def be_told() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:
            exit(128 + number)

    return be_told
