import pytest

from tenure.backends.tables.equality_columns import equal_columns
from tenure.core.table.condition import parse_condition


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("source = :source", ["source"]),
        ("Source = 'web' and orders.\"Country\" = 7", ["source", "Country"]),
        ("source = :source::text /* one */ and\n  is_open = true", ["source", "is_open"]),
        ("source = 'a and b = c'", ["source"]),
        ("source = :source or country = 7", []),
        ("not source = :source", []),
        ("source >= :source", []),
        ("lower(source) = :source", []),
        ("source = other", []),
        ("source is null", []),
        ("(source = :source)", []),
    ],
)
def test_only_of_a_conjunction_of_equalities_the_columns_are_told(condition: str, columns: list[str]) -> None:
    fragment = parse_condition("where", condition, {"source": "web"})

    assert equal_columns(fragment) == columns


def test_no_condition_has_no_columns() -> None:
    assert equal_columns(None) == []
