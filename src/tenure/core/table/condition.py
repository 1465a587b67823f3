"""SQL conditions of the user, checked so that tenure can embed them in its own statements.

A condition is one expression with named values, in which all quotes, comments and parentheses are closed. So it cannot
end the surrounding statement, nor reach beyond its own parentheses.
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
"""A backslash in quotes has no meaning in PostgreSQL and SQLite, except after an E; `_reject_unsafe` rejects E'…'."""


class Token(NamedTuple):
    kind: str
    text: str


def tokenize(text: str) -> Iterator[Token]:
    """Split a statement into tokens. Their texts, joined, are the statement."""
    for match in TOKEN.finditer(text):
        yield Token(_kind(match), match[0])


def substitute_values(text: str, placeholder: Callable[[str], str]) -> str:
    """Replace each `:name` outside quotes by `placeholder(name)`."""
    return TOKEN.sub(lambda each: placeholder(each[0][1:]) if each.lastgroup == "value" else each[0], text)


def indent(text: str, margin: str) -> str:
    """Indent all lines but the first by `margin`. Line breaks within quotes stay unchanged."""
    if not margin or "\n" not in text:
        return text
    return TOKEN.sub(lambda each: each[0] if _kind(each) == "quoted" else each[0].replace("\n", f"\n{margin}"), text)


@dataclass(frozen=True, slots=True)
class SqlCondition:
    """A checked condition of the user. `names` are the names of its values."""

    text: str
    names: tuple[str, ...]

    def render(self, prefix: str) -> str:
        """Return the SQL without comments, with each value `:name` renamed to `:prefix_name`."""
        parts = (each for each in tokenize(self.text))
        return "".join(
            f":{prefix}_{each.text[1:]}" if each.kind == "value" else " " if each.kind == "comment" else each.text
            for each in parts
        ).strip()


def parse_condition(option: str, text: object, params: Mapping[str, Any]) -> SqlCondition:
    """Parse a condition; raise `ConfigurationError` if it is unsafe or uses a value that `params` lacks."""
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
        # Backslash escapes can hide the closing quote of E'…' from the tokenizer.
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
