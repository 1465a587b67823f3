"""How a command ends: with which exit code, and which line about what went wrong."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click

from tenure.errors import ClaimLost, JobEnded, KeyTaken, TenureError

# A click before 8.2 prints that help by itself.
NoArguments: type[click.UsageError] = getattr(click.exceptions, "NoArgsIsHelpError", click.NoSuchOption)


class Code(IntEnum):
    """The exit codes; beside them, 128 and the number of a signal that ended it."""

    DONE = 0
    FAILED = 1
    MISUSE = 2
    NOTHING_DUE = 3


class Exit(Exception):  # noqa: N818 - it is no error
    """The program ends, and has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def ended_by() -> Iterator[None]:
    """Turn what can go wrong into one line and an exit code. A mistake of ours goes on, with its traceback."""
    try:
        yield
    except click.exceptions.Exit as exc:
        raise Exit(exc.exit_code) from None
    except NoArguments as exc:
        click.echo(exc.format_message(), err=True)
        raise Exit(Code.MISUSE) from None
    except click.UsageError as exc:
        raise refused(exc.format_message(), exc.ctx) from None
    except click.ClickException as exc:
        raise refused(exc.format_message(), None) from None
    except TenureError as exc:
        raise stopped(told(exc), code_of(exc)) from None
    except (KeyboardInterrupt, click.Abort):
        raise Exit(128 + signal.SIGINT) from None
    except OSError as exc:
        # What stands in the buffer could not be written, and is not to be tried again at exit.
        if isinstance(exc, BrokenPipeError):
            _drop_output()
            raise Exit(128 + signal.SIGPIPE) from None
        if exc.filename is None:
            _drop_output()
        where = f"{exc.filename!r}: " if exc.filename is not None else ""
        raise stopped(f"{where}{exc.strerror or exc}", Code.MISUSE) from None


def code_of(error: TenureError) -> Code:
    """Return the code for an error: that of what did not work, or that of what could not even be tried."""
    return Code.FAILED if isinstance(error, ClaimLost | KeyTaken | JobEnded) else Code.MISUSE


def told(error: TenureError) -> str:
    """Return all that an error says, in one line."""
    return " ".join(" ".join(part.split()) for part in (str(error), *(f"({note})" for note in _notes(error))))


def complain(message: str) -> None:
    """Say what went wrong, if anybody can be told: the exit code says it in any case."""
    try:
        click.echo(f"tenure: {message}", err=True)
    except OSError:
        _drop_output()


def stopped(message: str, code: int) -> Exit:
    """Return the end of the program, having said why it ends."""
    complain(message)
    return Exit(code)


def refused(message: str, context: click.Context | None) -> Exit:
    """Return the end of the program for a command line that cannot be understood."""
    help = f" (`{context.command_path} --help` has examples)" if context is not None else ""
    text = " ".join(message.split())
    return stopped(f"{text[:1].lower()}{text[1:].removesuffix('.')}{help}", Code.MISUSE)


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
