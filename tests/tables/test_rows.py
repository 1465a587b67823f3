"""`Row`: the argument of a handler for a table without a row class."""

import copy
import pickle

import pytest

import tenure


def test_a_row_is_a_mapping_with_attributes() -> None:
    row = tenure.Row({"id": 7, "order": "first", "keys": "k"})

    assert (row.id, row["order"], row["keys"], row.get("none")) == (7, "first", "k", None)
    assert dict(row) == {"id": 7, "order": "first", "keys": "k"}
    assert (len(row), "id" in row, list(row.keys())) == (3, True, ["id", "order", "keys"])
    assert row == tenure.Row({"id": 7, "order": "first", "keys": "k"})
    assert "order" in dir(row)
    assert repr(tenure.Row({"id": 7})) == "Row({'id': 7})"


def test_a_column_that_is_not_there_is_told_with_the_nearest() -> None:
    row = tenure.Row({"source": "scraper"})

    with pytest.raises(AttributeError, match="the row has no column 'sauce'; did you mean 'source'"):
        _ = row.sauce
    with pytest.raises(KeyError):
        _ = row["sauce"]


def test_a_row_cannot_be_changed() -> None:
    columns = {"id": 7}
    row = tenure.Row(columns)

    columns["id"] = 8
    with pytest.raises(AttributeError, match="a row is read-only"):
        row.id = 9
    with pytest.raises(AttributeError, match="a row is read-only"):
        row.other = 9

    assert row.id == 7


def test_a_row_can_be_copied_and_sent_to_another_process() -> None:
    row = tenure.Row({"id": 7})

    assert copy.deepcopy(row) == pickle.loads(pickle.dumps(row)) == row  # noqa: S301
