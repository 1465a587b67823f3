"""Conditions of the user: which are accepted, and how they are embedded."""

import pytest

from tenure.core.table.condition import SqlCondition, indent, parse_condition, substitute_values, tokenize
from tenure.errors import ConfigurationError

VALUES = {"source": "scraper", "least": 3}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("source = :source", ("source",)),
        ("total >= :least and total < 10 * :least", ("least",)),
        ("created_at::date = '2026-01-01'", ()),
        ("note = 'at 10:source'", ()),
        ("note = 'it''s :source'", ()),
        ('"a :least" = 1', ()),
        ("body = $$ :source ' $$", ()),
        ("body = $tag$ $$ :source $tag$ and n = :least", ("least",)),
        ("n = 1 -- :source", ()),
        ("/* :source */ n = :least", ("least",)),
        ("kind = 'e' or kind = 'E'", ()),
        ("type='e'", ()),
        ("a$b = 1", ()),
        ("n in (1, (2), 3)", ()),
    ],
)
def test_a_condition_has_the_values_that_it_names_outside_of_quotes_and_comments(
    text: str, names: tuple[str, ...]
) -> None:
    fragment = parse_condition("where", text, VALUES)

    assert fragment == SqlCondition(text, names)
    assert "".join(each.text for each in tokenize(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = 1; drop table x", "one condition, without a semicolon"),
        ("a = 1) or (b = 2", "unbalanced parentheses"),
        ("(a = 1", "unbalanced parentheses"),
        ("a = 'open", "unmatched '"),
        ('"open = 1', 'unmatched "'),
        ("a = 1 /* open", r"unmatched /\*"),
        ("a = 1 */", r"unmatched \*/"),
        ("/* a /* b */ c */ = 1", r"unmatched \*/"),
        ("a = $x$ open", r"unmatched \$x\$"),
        (r"a = E'it\'s'", "a string with escapes"),
        (r"a = e'\''", "a string with escapes"),
        ("-- nothing", "where is empty"),
        ("  ", "where is empty"),
        ("", "where must be text"),
        (7, "where must be text"),
        ("a = 'x\0'", "without NUL"),
        ("a = :sauce", "uses the value :sauce, which params lacks; did you mean 'source'"),
    ],
)
def test_what_could_reach_beyond_its_parentheses_is_refused(text: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        parse_condition("where", text, VALUES)


def test_a_condition_is_written_with_names_of_its_own_and_without_comments() -> None:
    fragment = parse_condition("where", "source = :source -- of them\nand n::int > :least /* ? */", VALUES)

    assert fragment.render("where") == "source = :where_source  and n::int > :where_least"


def test_each_value_of_a_statement_is_put_in_its_place() -> None:
    text = "select ':a', \":a\", :a, x::text from t where b = :b"

    assert substitute_values(text, lambda name: f"<{name}>") == "select ':a', \":a\", <a>, x::text from t where b = <b>"


@pytest.mark.parametrize(
    ("text", "margin", "expected"),
    [
        ("a\nand b", "  ", "a\n  and b"),
        ("a\n  and b\n", "  ", "a\n    and b\n  "),
        ("a = 'x\ny'\nand b", "  ", "a = 'x\ny'\n  and b"),
        ("a = $t$x\ny$t$\nand b", " ", "a = $t$x\ny$t$\n and b"),
        ('"a\nb" -- why\nand c', "  ", '"a\nb" -- why\n  and c'),
        ("a\nand b", "", "a\nand b"),
        ("a and b", "  ", "a and b"),
    ],
)
def test_lines_are_set_in_but_within_quotes(text: str, margin: str, expected: str) -> None:
    assert indent(text, margin) == expected
