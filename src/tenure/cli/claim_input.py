"""Claims as they are written on the command line: JSON, as `tenure claim` prints it.

All of it is read and checked before anything is done with it.
"""

import sys
from collections.abc import Iterator, Sequence

import click

from tenure.cli.param_types import json_of
from tenure.core.operations import Hold, hold_of
from tenure.errors import ConfigurationError


def holds_of(arguments: Sequence[str]) -> list[Hold]:
    """Return the claims that the arguments name; without arguments, those on the standard input."""
    if arguments:
        # The variable of a script whose `tenure claim` found nothing: nothing would be done, and be told as done.
        if not all(argument.strip() for argument in arguments):
            raise click.UsageError("a claim is empty, so `tenure claim` found nothing; nothing was done")
        return [hold for argument in arguments for hold in _holds_in(argument, "the claim")]
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("name a claim, as `tenure claim` prints it, or give JSON lines on the standard input")
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"the standard input is not UTF-8: {exc.reason} at byte {exc.start}") from None
    return list(_holds_in(text, "the standard input"))


def _holds_in(text: str, source: str) -> Iterator[Hold]:
    # Not `splitlines`: JSON may have other line separators within its strings.
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _hold_of(line, f"line {number} of {source}" if len(lines) > 1 else source)


def _hold_of(line: str, where: str) -> Hold:
    found = json_of(line, where)
    if not isinstance(found, dict):
        raise click.UsageError(f"{where} is no JSON object, as `tenure claim` prints it")
    for name in ("id", "fence", "token"):
        if name not in found:
            raise click.UsageError(f"{where} has no {name!r}; a claim has id, fence and token")
    try:
        return hold_of(found["id"], found["fence"], found["token"])
    except ConfigurationError as exc:
        raise click.UsageError(f"{where} is no claim: {exc}") from None
