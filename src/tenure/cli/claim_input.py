"""Claims as input of a command: JSON, as `tenure claim` prints it.

All input is read and checked before a command settles the first claim.
"""

import sys
from collections.abc import Iterator, Sequence

import click

from tenure.cli.param_types import parse_json
from tenure.core.operations import Hold, check_hold
from tenure.errors import ConfigurationError


def read_holds(arguments: Sequence[str]) -> list[Hold]:
    """Return the claims in the arguments; without arguments, those on the standard input."""
    if arguments:
        # A shell variable is empty because `tenure claim` found no job. Settling nothing must not look like success.
        if not all(argument.strip() for argument in arguments):
            raise click.UsageError("empty claim: `tenure claim` found no job; nothing was done")
        return [hold for argument in arguments for hold in _parse_lines(argument, "the claim")]
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "no claim given: pass the output of `tenure claim` as an argument, or on the standard input"
        )
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"the standard input is not UTF-8: {exc.reason} at byte {exc.start}") from None
    return list(_parse_lines(text, "the standard input"))


def _parse_lines(text: str, source: str) -> Iterator[Hold]:
    # Not `splitlines`: JSON strings may contain other line separators.
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _parse_hold(line, f"line {number} of {source}" if len(lines) > 1 else source)


def _parse_hold(line: str, where: str) -> Hold:
    found = parse_json(line, where)
    if not isinstance(found, dict):
        raise click.UsageError(f"{where} is not a JSON object; pass the output of `tenure claim`")
    for name in ("id", "fence", "token"):
        if name not in found:
            raise click.UsageError(f"{where} has no {name!r}; a claim needs id, fence and token")
    try:
        return check_hold(found["id"], found["fence"], found["token"])
    except ConfigurationError as exc:
        raise click.UsageError(f"{where} is not a valid claim: {exc}") from None
