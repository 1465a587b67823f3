"""Programs as the tests start them: under an account that may, and gone when the tests are.

A server has a session of its own, so that Ctrl-C reaches only the tests, and they stop it in their order. However its
parent ends, on Linux it is told to end as well.
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
"""Seconds after which something that has to happen counts as not happening."""

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs a program; None is whoever runs the tests."""

    user: int | None = None
    group: int | None = None

    @property
    def groups(self) -> list[int] | None:
        return None if self.user is None else []

    def own(self, path: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group, follow_symlinks=False)

    def run(self, *command: str | Path) -> None:
        """Run a program to its end; raise with what it said if it fails."""
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
    """Return an account that is not root's; PostgreSQL refuses to run as root. None is made for this."""
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
    """Return ours, without what would change how a server or its programs behave."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


class Process:
    """A server and its children. `last_signal` is what it gets when its parent dies."""

    def __init__(self, command: Sequence[str | Path], account: Account, log: Path, last_signal: signal.Signals) -> None:
        # All of its children inherit the one end, and none of them knows: at the other is the end of a file when the
        # last of them is gone.
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
        """Send it this, and return when it and its children are gone. It is not used after that."""
        self._process.send_signal(number)
        gone = select.poll()
        gone.register(self._gone, select.POLLIN)
        if not gone.poll(PATIENCE * 1000):
            raise RuntimeError(f"process {self.pid} or a child is still running {PATIENCE:g} s after {number.name}")
        self._process.wait(PATIENCE)
        os.close(self._gone)


def told_of_our_death(number: signal.Signals) -> Callable[[], None] | None:
    """Return what a child has to do so that it gets this signal when we die, or None where that cannot be had.

    Who forks has to be the main thread: the system takes the end of that thread for the death.
    """
    if sys.platform != "linux":
        return None
    # Between fork and exec only what takes no lock may run. So everything is looked up here, and a function of a PyDLL
    # is called without letting go of the interpreter's lock.
    prctl, parent, exit = ctypes.PyDLL(None).prctl, os.getpid(), os._exit

    def be_told() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:
            exit(128 + number)

    return be_told
