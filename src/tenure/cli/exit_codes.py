"""Exit codes, and the line that a command prints for an error."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click

from tenure.errors import ClaimLost, JobEnded, KeyTaken, TenureError

# click before 8.2 prints the help itself.
NoArguments: type[click.UsageError] = getattr(click.exceptions, "NoArgsIsHelpError", click.NoSuchOption)


class ExitCode(IntEnum):
    """The exit codes. A program ended by a signal exits with 128 plus the number of the signal."""

    DONE = 0
    FAILED = 1
    MISUSE = 2
    NOTHING_DUE = 3


class Exit(Exception):  # noqa: N818 - not an error
    """Ends the program. The reason is already printed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Turn expected errors into one line and an exit code. A bug in tenure propagates with its traceback."""
    try:
        yield
    except click.exceptions.Exit as exc:
        raise Exit(exc.exit_code) from None
    except NoArguments as exc:
        click.echo(exc.format_message(), err=True)
        raise Exit(ExitCode.MISUSE) from None
    except click.UsageError as exc:
        raise exit_with_usage_error(exc.format_message(), exc.ctx) from None
    except click.ClickException as exc:
        raise exit_with_usage_error(exc.format_message(), None) from None
    except TenureError as exc:
        raise exit_with_error(error_line(exc), exit_code_of(exc)) from None
    except (KeyboardInterrupt, click.Abort):
        raise Exit(128 + signal.SIGINT) from None
    except OSError as exc:
        # Drop the buffer that could not be written, or Python writes it again at exit.
        if isinstance(exc, BrokenPipeError):
            _drop_output()
            raise Exit(128 + signal.SIGPIPE) from None
        if exc.filename is None:
            _drop_output()
        where = f"{exc.filename!r}: " if exc.filename is not None else ""
        raise exit_with_error(f"{where}{exc.strerror or exc}", ExitCode.MISUSE) from None


def exit_code_of(error: TenureError) -> ExitCode:
    """Return FAILED if the store rejected the operation, MISUSE if the operation could not be tried."""
    return ExitCode.FAILED if isinstance(error, ClaimLost | KeyTaken | JobEnded) else ExitCode.MISUSE


def error_line(error: TenureError) -> str:
    """Return the message and the notes of an error in one line."""
    return " ".join(" ".join(part.split()) for part in (str(error), *(f"({note})" for note in _notes(error))))


def print_error(message: str) -> None:
    """Print an error to the standard error. Ignore a closed stream: the exit code reports the failure anyway."""
    try:
        click.echo(f"tenure: {message}", err=True)
    except OSError:
        _drop_output()


def exit_with_error(message: str, code: int) -> Exit:
    """Print an error; return the exception that ends the program."""
    print_error(message)
    return Exit(code)


def exit_with_usage_error(message: str, context: click.Context | None) -> Exit:
    """Print an error in the command line; return the exception that ends the program."""
    help = f" (see `{context.command_path} --help`)" if context is not None else ""
    text = " ".join(message.split())
    return exit_with_error(f"{text[:1].lower()}{text[1:].removesuffix('.')}{help}", ExitCode.MISUSE)


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
