"""Names and keys of every kind."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy

from tenure.backends.tables.postgres.layout import RESERVED_ALIASES
from tenure.core import transitions
from tenure.core.job import State
from tenure.core.operations import Hold, Move, Query, Refusal
from tenure.core.table.spec import quote_identifier
from tenure.errors import ConfigurationError
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_release,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)
from tests.servers.postgres import Server
from tests.tables.postgres_shop import ORDERS, Shop, new_shop, shown

ODD = '"; drop table x; --'
COLUMNS = ("order", 'sele"ct', "a space", "100 %", "at :request", "{state}", "group")


@pytest.fixture
def shop(postgres: Server) -> Iterator[Shop]:
    with new_shop(postgres) as shop:
        yield shop


def odd_table(shop: Shop) -> None:
    columns = ", ".join(f"{quote_identifier(name)} text" for name in COLUMNS[1:])
    shop.execute(f'create table S.{quote_identifier(ODD)} ("order" bigint primary key, {columns})')
    shop.execute(
        f'insert into S.{quote_identifier(ODD)} ("order", "at :request") values (1, %s), (2, %s)', ":one", "%s {two}"
    )


def odd_options(*, is_sidecar: bool) -> dict[str, Any]:
    where = '"at :request" <> :none and "at :request" <> \':none {no} %\''
    if is_sidecar:
        return {"id": "order", "where": where, "params": {"none": ":x"}, "sidecar": True}
    return {
        "id": "order",
        "columns": {"state": "{state}", "worker": 'sele"ct', "token": "100 %", "error": "at :worker"},
        "states": {
            "queued": "wait :now",
            "running": "{run}",
            "completed": "100 %",
            "failed": "it's",
            "cancelled": "\\",
        },
        "where": where,
        "params": {"none": ":x"},
        "order_by": ["-a space", "order"],
        "on_retry": {"group": "{again} :now"},
    }


@pytest.mark.parametrize("is_sidecar", [False, True])
def test_a_table_and_columns_of_any_names_are_claimed_settled_moved_and_found(shop: Shop, is_sidecar: bool) -> None:  # noqa: FBT001
    odd_table(shop)
    table = shop.fit(ODD, **odd_options(is_sidecar=is_sidecar))
    if not is_sidecar:
        shop.execute(f'update S.{quote_identifier(ODD)} set "{{state}}" = %s', "wait :now")

    first, second = take(table, limit=2)
    landed = table.settle([build_completion(first), build_failure(second, final=True)])
    moved = table.move([second.id], Move.RETRY)

    assert landed == [True, True]
    assert [each.moved for each in moved] == [True]
    assert shown(table) == [("1", "completed"), ("2", "queued")]
    assert first.job.payload["at :request"] == ":one"
    assert set(COLUMNS) <= set(first.job.payload)


@pytest.mark.parametrize("is_sidecar", [False, True])
def test_odd_names_are_settled_in_a_transaction_of_any_driver(shop: Shop, is_sidecar: bool) -> None:  # noqa: FBT001
    odd_table(shop)
    table = shop.fit(ODD, **odd_options(is_sidecar=is_sidecar))
    if not is_sidecar:
        shop.execute(f'update S.{quote_identifier(ODD)} set "{{state}}" = %s', "wait :now")
    first, second = take(table, limit=2)
    engine = sqlalchemy.create_engine(shop.url.replace("postgresql://", "postgresql+psycopg://"))

    with engine.begin() as connection, table.join(connection) as joined:
        landed = joined.settle([build_failure(first, "%s :request {x}", final=True)])
    with psycopg.connect(shop.url) as own, table.join(own) as joined:
        landed += joined.settle([build_completion(second, {"a": ":request %s"})])
    engine.dispose()

    assert landed == [True, True]
    assert job_of(table, first.id).errors == ["%s :request {x}"]
    assert job_of(table, second.id).result == {"a": ":request %s"}


def test_a_condition_means_the_users_tables_whatever_they_are_called(shop: Shop) -> None:
    for name in ("due", "taken", "expired", "found", "candidate", "held", "job", "requested"):
        shop.execute(f"create table S.{name} (id bigint primary key)")
    shop.execute("create table S.sidecar (id bigint primary key, state text not null default 'queued')")
    shop.execute("insert into S.sidecar select generate_series(1, 3)")
    shop.execute("insert into S.due values (1), (2); insert into S.candidate values (1), (2), (3)")
    shop.execute("insert into S.expired values (1)")
    inside = " and ".join(f"exists (select from {name} where {name}.id = sidecar.id)" for name in ("due", "candidate"))
    path = f"{shop.url}&options=-csearch_path%3D{shop.schema}"
    table = shop.fit("sidecar", url=path, where=inside, done_if="exists (select from expired where id = sidecar.id)")

    taken = take(table, limit=3, lease=1)
    reaped = table.reap(worker="w1")

    assert ids_of(taken) == ["1", "2"]
    assert [(each.id, each.state) for each in reaped] == [("1", State.COMPLETED), ("2", State.QUEUED)]
    assert shown(table) == [("1", "completed"), ("2", "queued")]
    assert table.already_done(["1", "2"]) == [True, False]


def test_a_row_is_read_as_it_is_whatever_functions_the_user_has(shop: Shop) -> None:
    shop.execute("create table S.orders (id bigint primary key, source text, state text not null default 'queued')")
    shop.execute("insert into S.orders values (1, 'web')")
    table = shop.fit("orders", url=f"{shop.url}&options=-csearch_path%3D{shop.schema}")
    shop.execute("create function S.concat(text) returns text language sql as 'select null'")
    shop.execute("create function S.format(text, text, text) returns text language sql as 'select null'")

    taken = take_one(table)
    table.reap(worker="w1")

    assert taken.job.payload == {"id": 1, "source": "web", "state": "running"}
    assert "was reported dead" in job_of(table, "1").errors[0]


def test_a_key_of_several_columns_is_a_list_of_texts(shop: Shop) -> None:
    shop.execute(
        "create table S.lines (shop uuid, line integer, name varchar(5), state text not null default 'queued', "
        "primary key (shop, line, name))"
    )
    shop.execute("insert into S.lines select %s, n, 'ä\",' from generate_series(1, 2) n", UUID(int=7))
    table = shop.fit("lines", id=["shop", "line", "name"])

    first, second = take(table, limit=2)

    assert first.id == f'["{UUID(int=7)}","1","ä\\","]'
    assert table.settle([build_completion(second), build_release(first)]) == [True, True]
    assert shown(table) == [(first.id, "queued"), (second.id, "completed")]
    assert [each.state for each in table.move([first.id, second.id], Move.CANCEL)] == ["cancelled", "completed"]
    assert ids_of(table.find(Query(ids=(first.id,))).jobs) == [first.id]
    assert table.explain(first.id.replace(",", ", ", 1), None, None) is None


NO_KEYS = {
    "bigint": ["", "01", "+1", "1.0", " 1", "-0", "٣", "9" * 30, "x", str(2**63)],
    "smallint": ["32768", "-32769"],
    "uuid": ["nobody", str(UUID(int=1)).upper().replace("0", "A"), UUID(int=1).hex, "{" + str(UUID(int=1)) + "}"],
    "varchar(3)": ["abcd", "a\0", "\ud800"],
}


@pytest.mark.parametrize("kind", NO_KEYS)
def test_an_id_that_no_key_can_be_is_of_no_row(shop: Shop, kind: str) -> None:
    shop.execute(f"create table S.orders (id {kind} primary key, state text not null default 'queued')")
    shop.execute("insert into S.orders (id) values (%s)", {"uuid": str(UUID(int=1))}.get(kind, "1"))
    table = shop.fit()

    for id in NO_KEYS[kind]:
        (moved,) = table.move([id], Move.CANCEL)
        assert moved.refusal is Refusal.UNKNOWN
        assert table.find(Query(ids=(id,))).jobs == []
        assert table.explain(id, None, None) is None
        assert not settle(table, transitions.build_completion(Hold(id=id, fence=1, token="t")))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("bigint", ["-5", "7"]), ("text", ["", 'it\'s \\ "{}" :a %s']), ("uuid", [str(UUID(int=1)), str(UUID(int=2))])],
)
def test_keys_of_each_type_are_claimed_and_settled(shop: Shop, kind: str, keys: list[str]) -> None:
    shop.execute(f"create table S.orders (id {kind} primary key, state text not null default 'queued')")
    shop.execute("insert into S.orders (id) select unnest(%s::text[])::" + kind, keys)
    table = shop.fit()

    taken = take(table, limit=5)

    assert ids_of(taken) == keys
    assert table.settle([build_completion(each) for each in taken]) == [True, True]


def test_states_may_be_numbers(shop: Shop) -> None:
    shop.execute("create table S.orders (id bigint primary key, state smallint not null default 0)")
    shop.execute("insert into S.orders (id, state) values (1, 0), (2, 0), (3, 9)")
    table = shop.fit(states={"queued": 0, "running": 1, "completed": 2, "failed": -1, "cancelled": 7})

    first, second = take(table, limit=3)
    table.settle([build_completion(first), build_failure(second, final=True)])

    assert shop.execute("select id, state from S.orders order by id") == [(1, 2), (2, -1), (3, 9)]
    assert shown(table) == [("1", "completed"), ("2", "failed")]


def test_a_column_that_is_not_there_is_told_with_the_nearest(shop: Shop) -> None:
    shop.execute(ORDERS)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"columns": {"state": "status"}, "id": "ids"}, "did you mean 'id'"),
        ({"columns": {"state": "status"}, "order_by": "sources"}, "did you mean 'source'"),
        ({"columns": {"state": "status"}, "on_retry": {"sorce": None}}, "did you mean 'source'"),
        ({}, "if that column holds state, pass columns={'state': 'status'}"),
        ({"columns": {"state": "statuss"}}, "pass columns={'state': 'status'}"),
    ]

    for options, told in cases:
        table = shop.open(**options)
        with pytest.raises(ConfigurationError, match=told):
            table.stats()


def test_a_table_that_is_not_there_is_told_with_the_nearest(shop: Shop) -> None:
    shop.execute(ORDERS)

    with pytest.raises(ConfigurationError, match="did you mean 'orders'"):
        shop.open("order").stats()


def test_a_key_that_several_rows_may_have_is_refused(shop: Shop) -> None:
    shop.execute("create table S.loose (id bigint, state text not null default 'queued')")
    table = shop.fit("loose")

    with pytest.raises(ConfigurationError, match="no unique index on the key id"):
        take(table)


def test_a_table_without_fence_token_and_lease_is_not_claimed_from(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("insert into S.orders values (1)")
    table = shop.open(columns={"state": "status"})

    with pytest.raises(ConfigurationError, match="add column if not exists"):
        take(table)

    assert shop.execute("select status from S.orders") == [("queued",)]


@pytest.mark.parametrize("is_sidecar", [False, True])
@pytest.mark.parametrize("name", RESERVED_ALIASES)
def test_a_table_that_is_called_like_a_part_of_a_statement_is_worked_on(
    shop: Shop,
    name: str,
    is_sidecar: bool,  # noqa: FBT001
) -> None:
    shop.execute(f"create table S.{name} (id bigint primary key, key_1 bigint, state text not null default 'queued')")
    shop.execute(f"insert into S.{name} (id, key_1) values (1, 2), (2, 1), (3, 0)")
    options = {"where": f"{name}.key_1 > 0", "on_retry": {"key_1": 7}, "order_by": "key_1"}
    table = shop.fit(name, **options, sidecar=is_sidecar)

    first, second = take(table, limit=3)
    landed = table.settle([build_completion(first), build_failure(second, final=True)])
    moved = table.move([second.id], Move.RETRY)

    assert ids_of([first, second]) == ["2", "1"]
    assert landed == [True, True]
    assert [each.moved for each in moved] == [True]
    assert shown(table, limit=2) == [("2", "completed"), ("1", "queued")]
    assert shop.execute(f"select key_1 from S.{name} where id = 1") == [(7,)]
    assert table.explain("1", None, None) is not None
