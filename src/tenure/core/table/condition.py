"""SQL that the user wrote, to be put into a statement of ours: read as far as it takes to do that safely.

Only what a condition needs is let in: one expression, with every quote, comment and parenthesis closed, and its values
named. So a fragment cannot end the statement that it stands in, nor reach beyond its own parentheses.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from tenure.core import checks
from tenure.errors import ConfigurationError

TOKEN = re.compile(
    r"""
      (?P<quoted>  '(?:[^']|'')*' | "(?:[^"]|"")*" | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag) )
    | (?P<comment> --[^\n]*\n? | /\*(?:[^*]|\*(?!/))*\*/ )
    | (?P<value>   (?<!:):[A-Za-z_]\w* )
    | (?P<open>    '|"|/\*|\*/|\$(?:[A-Za-z_]\w*)?\$ )
    | (?P<mark>    [();] )
    | (?P<plain>   ::|[\w$]+|\s+|[^\w] )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Of a backslash in quotes PostgreSQL and SQLite make nothing, unless an E stands before the quote: see `_refuse`."""


class Token(NamedTuple):
    kind: str
    text: str


def tokenize(text: str) -> Iterator[Token]:
    """Yield the parts of a statement; together they are the statement."""
    for match in TOKEN.finditer(text):
        yield Token(_kind(match), match[0])


def substitute_values(text: str, placeholder: Callable[[str], str]) -> str:
    """Return a statement with each `:name` replaced by what stands for that value; quotes stay as they are."""
    return TOKEN.sub(lambda each: placeholder(each[0][1:]) if each.lastgroup == "value" else each[0], text)


def indent(text: str, margin: str) -> str:
    """Return a statement with its lines but the first so far in; within quotes they stay as they are."""
    if not margin or "\n" not in text:
        return text
    return TOKEN.sub(lambda each: each[0] if _kind(each) == "quoted" else each[0].replace("\n", f"\n{margin}"), text)


@dataclass(frozen=True, slots=True)
class SqlCondition:
    """A condition of the user's, which was read and can be put into a statement."""

    text: str
    names: tuple[str, ...]

    def render(self, prefix: str) -> str:
        """Return it with its values under names that begin with the prefix, as `:prefix_name`, and without comments."""
        parts = (each for each in tokenize(self.text))
        return "".join(
            f":{prefix}_{each.text[1:]}" if each.kind == "value" else " " if each.kind == "comment" else each.text
            for each in parts
        ).strip()


def parse_condition(option: str, text: object, params: Mapping[str, Any]) -> SqlCondition:
    """Return a condition, or raise for what cannot be one, or names a value that is not given."""
    checked = checks.storable_text(option, text)
    found = list(tokenize(checked))
    _reject_unsafe(option, checked, found)
    names = tuple(dict.fromkeys(each.text[1:] for each in found if each.kind == "value"))
    for name in names:
        if name not in params:
            raise ConfigurationError(
                f"{option} uses the value :{name}, which params lacks{checks.did_you_mean(name, params)}: {checked!r}"
            )
    return SqlCondition(checked, names)


def _reject_unsafe(option: str, text: str, found: list[Token]) -> None:
    for before, each in pairwise(found):
        # Where such a quote ends cannot be told from its quotes alone.
        if before.text in {"e", "E"} and each.text.startswith("'"):
            raise ConfigurationError(f"{option} has a string with escapes, E'…'; pass the string in params: {text!r}")
    depth = 0
    for each in found:
        if each.kind == "open":
            raise ConfigurationError(f"{option} has an unmatched {each.text}: {text!r}")
        if each.text == ";" and each.kind == "mark":
            raise ConfigurationError(f"{option} must be one condition, without a semicolon: {text!r}")
        depth += {"(": 1, ")": -1}.get(each.text, 0) if each.kind == "mark" else 0
        if depth < 0:
            break
    if depth != 0:
        raise ConfigurationError(f"{option} has unbalanced parentheses: {text!r}")
    if all(each.kind == "comment" or each.text.isspace() for each in found):
        raise ConfigurationError(f"{option} is empty; omit it, or pass a condition")


def _kind(match: re.Match[str]) -> str:
    return "quoted" if match.lastgroup == "tag" else str(match.lastgroup)
