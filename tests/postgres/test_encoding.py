"""Array literals: the fast encoders write the same text as the general one."""

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.encoding import array, integer_array, text_array
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.statements import number_values

ECHO = number_values("select to_json(cast(:values as text[]))")

TEXTS: list[list[str | None]] = [
    [],
    ["a"],
    [""],
    ["", ""],
    ["a", None, "b"],
    ["null", "NULL", " ", "{", "}", ","],
    ['"'],
    ['","'],
    ['a","b', "c"],
    ["\\"],
    ['\\","', "\\\\"],
    ["é", "\U0001f600"],
]


@pytest.mark.parametrize("values", TEXTS, ids=repr)
def test_texts_arrive_as_they_were_sent(store: PostgreSQL, values: list[str | None]) -> None:
    assert store.database.execute([BoundQuery(ECHO, {"values": text_array(values)})]) == [values]
    assert store.database.execute([BoundQuery(ECHO, {"values": array(values)})]) == [values]


@pytest.mark.parametrize("values", [[], [0], [-1, 2**62], [True, False]], ids=repr)
def test_numbers_are_written_as_in_any_array(values: list[int]) -> None:
    assert integer_array(values) == array(values)
