"""Options of a table: how they are parsed, and which are rejected with which message."""

from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest

from tenure.core.job import State
from tenure.core.table.options import build_table_spec
from tenure.core.table.spec import (
    LONGEST_IDENTIFIER,
    Order,
    OutputLocation,
    Role,
    derive_name,
    quote_identifier,
    row_id,
)
from tenure.errors import ConfigurationError


class Word(str, Enum):  # noqa: UP042 - as it is written in many programs
    PENDING = "pending"


class Number(IntEnum):
    PENDING = 1


def test_a_table_is_described_by_its_name_alone() -> None:
    spec = build_table_spec("orders")

    assert (spec.name, spec.schema, spec.key, spec.label, spec.display_name) == (
        "orders",
        None,
        ("id",),
        "orders",
        "orders",
    )
    assert spec.state_values == {state: state.value for state in State}
    assert not spec.is_sidecar
    assert hash(spec) == hash(build_table_spec("orders"))


def test_a_schema_is_told_before_the_name_or_beside_it() -> None:
    before, beside = build_table_spec("shop.orders"), build_table_spec("orders", schema="shop")
    dotted = build_table_spec("a.b", schema="shop")

    assert before == beside
    assert before.display_name == "shop.orders"
    assert (dotted.schema, dotted.name) == ("shop", "a.b")


@pytest.mark.parametrize(("queues", "types"), [(None, None), (("mail", "orders"), None), (("orders",), ("orders",))])
def test_a_table_is_included_by_queues_and_types_with_its_name(
    queues: tuple[str, ...] | None, types: tuple[str, ...] | None
) -> None:
    assert build_table_spec("orders").is_included(queues, types)


@pytest.mark.parametrize(("queues", "types"), [(("mail",), ("orders",)), (None, ("mail",)), ((), None)])
def test_a_table_is_not_included_by_other_queues_or_types(
    queues: tuple[str, ...] | None, types: tuple[str, ...] | None
) -> None:
    assert not build_table_spec("orders").is_included(queues, types)


def test_a_role_is_played_by_the_column_that_is_named_or_by_one_of_ours() -> None:
    spec = build_table_spec("orders", columns={"state": "status", "attempts": "tries"})

    assert spec.column(Role.STATE) == "status"
    assert spec.column(Role.ATTEMPTS) == "tries"
    assert spec.column(Role.FENCE) == "tenure_fence"
    assert build_table_spec("orders").column(Role.STATE) == "state"
    assert [spec.column(role) for role in (Role.ERROR, Role.PRIORITY, Role.CREATED_AT)] == [None, None, None]


def test_a_companion_has_all_roles_but_those_that_are_read_beside() -> None:
    spec = build_table_spec("orders", sidecar=True, where="n > 0", columns={"priority": "rank"})

    assert (spec.is_sidecar, spec.sidecar_name) == (True, "tenure_orders")
    assert (spec.column(Role.STATE), spec.column(Role.FENCE), spec.column(Role.ERROR)) == ("state", "fence", "error")
    assert (spec.column(Role.PRIORITY), spec.column(Role.CREATED_AT)) == ("rank", None)
    assert build_table_spec("orders", sidecar="beside", where="n > 0").sidecar_name == "beside"


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ("created_at", (Order("created_at"),)),
        ("created_at desc, id", (Order("created_at", is_descending=True), Order("id"))),
        ("-rank, created at ASC", (Order("rank", is_descending=True), Order("created at"))),
        (["-rank", "id"], (Order("rank", is_descending=True), Order("id"))),
        ("desc", (Order("desc"),)),
        ("-", (Order("-"),)),
        (None, ()),
    ],
)
def test_an_order_is_columns_with_their_directions(given: Any, order: tuple[Order, ...]) -> None:
    assert build_table_spec("orders", order_by=given).order_by == order


@pytest.mark.parametrize(
    ("given", "output", "condition"),
    [
        ("invoices.order_id", OutputLocation(None, "invoices", ("order_id",)), 'from "invoices" output where'),
        (
            "shop.invoices.order_id",
            OutputLocation("shop", "invoices", ("order_id",)),
            'from "shop"."invoices" output where',
        ),
    ],
)
def test_an_output_is_where_the_work_shows_and_tells_if_it_is_done(
    given: str, output: OutputLocation, condition: str
) -> None:
    spec = build_table_spec("orders", output=given)

    assert spec.output == output
    assert spec.done_if is not None
    assert condition in spec.done_if.text
    assert spec.done_if.text.endswith('output."order_id" = "orders"."id")')


def test_an_output_of_another_number_of_columns_tells_nothing_of_a_row() -> None:
    spec = build_table_spec("orders", id=("shop", "number"), output="invoices.order_id")

    assert spec.output is not None
    assert spec.done_if is None


def test_a_table_that_is_called_output_is_not_hidden_by_its_output() -> None:
    spec = build_table_spec("output", output="invoices.order_id")

    assert spec.done_if is not None
    assert spec.done_if.text.endswith('found."order_id" = "output"."id")')


def test_a_condition_goes_before_the_output() -> None:
    spec = build_table_spec("orders", output="invoices.order_id", done_if="is_done", where="n = :n", params={"n": 1})

    assert spec.done_if is not None
    assert spec.done_if.text == "is_done"
    assert spec.where is not None
    assert spec.where.names == ("n",)


def test_words_are_what_the_column_has_and_members_of_an_enumeration_are_their_values() -> None:
    numbers: Any = {"queued": Number.PENDING, "running": 2, "completed": 3, "failed": 4, "cancelled": 5}

    of_texts, of_numbers = (
        build_table_spec("orders", states={"queued": Word.PENDING}),
        build_table_spec("orders", states=numbers),
    )

    assert (of_texts.state_values[State.QUEUED], type(of_texts.state_values[State.QUEUED])) == ("pending", str)
    assert (of_numbers.state_values[State.QUEUED], type(of_numbers.state_values[State.QUEUED])) == (1, int)
    assert of_texts.state_values[State.RUNNING] == "running"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"columns": {"leased_untl": "x"}}, "columns has no option 'leased_untl'; did you mean 'leased_until'"),
        ({"columns": {"state": ""}}, r"columns\['state'\] must be the name of a table or column"),
        ({"columns": {"state": "s", "worker": "s"}}, "columns has 's' for 'state' and for 'worker'"),
        ({"columns": {"worker": "id"}}, "columns has 'id' for 'worker', but it is part of the key"),
        ({"columns": ["state"]}, "columns must be a dict"),
        ({"states": {"pending": "p"}}, "states has no option 'pending'"),
        ({"states": {"queued": True}}, r"states\['queued'\] must be a text or a whole number"),
        ({"states": {"queued": ""}}, r"states\['queued'\] must be a text or a whole number"),
        ({"states": {"queued": "failed"}}, "states has 'failed' for 'queued' and for 'failed'"),
        ({"states": {"queued": 1}}, "states has numbers, so add a number for running, completed, failed, canc"),
        ({"id": ()}, "id is empty"),
        ({"id": {"a": 1}}, "id must be a column or a list of columns"),
        ({"id": b"id"}, "id must be a column or a list of columns"),
        ({"id": 7}, "id must be a column or a list of columns"),
        ({"id": "x" * (LONGEST_IDENTIFIER + 1)}, "id must have at most 63 bytes"),
        ({"id": "x\0"}, "id must be the name of a table or column"),
        ({"schema": ""}, "schema must be the name of a table or column"),
        ({"order_by": 7}, "order_by must be columns, such as 'created_at'"),
        ({"order_by": b"id"}, "order_by must be columns"),
        ({"order_by": "a,,b"}, "order_by must be the name of a table or column, not ''"),
        ({"output": "order_id"}, "output must be a column, such as 'invoices.order_id'"),
        ({"output": "a.b.c.d"}, "output must be a column, such as"),
        ({"output": "invoices."}, "output must be a column, such as"),
        ({"output": ["invoices.a", "bills.b"]}, "output must be a column, such as"),
        ({"params": {"source": 1}}, "params has 'source', but neither where nor done_if uses :source"),
        ({"params": {"sauce": 1, "source": 1}, "where": "s = :source"}, "params has 'sauce', .* did you mean 'source'"),
        ({"params": {"a b": 1}}, "the names in params must be identifiers"),
        ({"params": {1: 1}}, "the names in params must be identifiers"),
        ({"params": {"é": 1}}, "the names in params must be identifiers"),
        ({"params": 7}, "params must be a dict"),
        ({"on_retry": {"": None}}, "on_retry must be the name of a table or column"),
        ({"on_retry": {"id": None}}, "on_retry has 'id', which is part of the key"),
        ({"on_retry": {"w": None}, "columns": {"worker": "w"}}, "on_retry has 'w', but a retry sets 'worker' anyway"),
        ({"sidecar": True}, "sidecar=True needs where="),
        ({"sidecar": 1}, "sidecar must be True or False"),
        (
            {"sidecar": True, "where": "1=1", "columns": {"state": "s"}},
            "columns has 'state', but with sidecar= the sidecar table holds that column",
        ),
        ({"sidecar": True, "where": "1=1", "states": {"queued": "p"}}, "states cannot be used with sidecar="),
        ({"max_attempts": 0}, "max_attempts must be 1 to"),
        ({"max_crashes": 0}, "max_crashes must be 1 to"),
        ({"where": "a = 'x"}, "where has an unmatched '"),
    ],
)
def test_what_cannot_be_is_refused_with_the_value_and_a_word(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        build_table_spec("orders", **options)


def test_a_column_that_is_only_read_may_be_set_by_a_retry_or_be_the_key() -> None:
    spec = build_table_spec("orders", columns={"priority": "rank", "created_at": "id"}, on_retry={"rank": 0})

    assert spec.on_retry == {"rank": 0}
    assert spec.max_attempts == 5
    assert build_table_spec("orders", max_attempts=None).max_attempts is None


@pytest.mark.parametrize("name", ["", 7, None, "a\0b"])
def test_a_table_has_a_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="a table must be the name"):
        build_table_spec(name)


KEY = UUID("0199a3f0-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("key", "columns", "id"),
    [
        (7, 1, "7"),
        ("7", 1, "7"),
        (KEY, 1, str(KEY)),
        (("a b", 7), 2, '["a b","7"]'),
        (["é", KEY], 2, f'["é","{KEY}"]'),
        ('["a","7"]', 2, '["a","7"]'),
    ],
)
def test_a_key_is_named_by_its_value_or_by_the_id_that_is_made_of_it(key: object, columns: int, id: str) -> None:
    assert row_id(key, columns) == id


@pytest.mark.parametrize(
    ("key", "columns"),
    [(True, 1), (1.5, 1), ((1, 2), 1), (None, 1), (7, 2), ((1,), 2), ((1, None), 2), ("\0", 1), ("", 1)],
)
def test_what_is_no_key_is_refused(key: object, columns: int) -> None:
    with pytest.raises(ConfigurationError, match="id must be"):
        row_id(key, columns)


def test_a_name_is_quoted_whatever_it_has() -> None:
    assert quote_identifier('"; drop table x; --') == '"""; drop table x; --"'


def test_a_name_that_is_made_is_whole_if_it_fits_and_else_ends_in_a_digest() -> None:
    long = "é" * 31

    made, other = derive_name("tenure", long, "claim"), derive_name("tenure", long, "leases")

    assert derive_name("tenure", "orders", "claim") == "tenure_orders_claim"
    assert made != other
    assert max(len(each.encode()) for each in (made, other)) <= LONGEST_IDENTIFIER
