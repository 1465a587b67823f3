"""Concurrent changes by the user's code: triggers that revert updates, keys that change."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tenure.backends.tables.row_batches import NO_EFFECT
from tenure.core.job import State
from tenure.core.operations import HoldStatus, Move, Unsettled
from tenure.testing.conformance.building import build_completion, extend, ids_of, take, take_one
from tests.servers.postgres import Server
from tests.tables.postgres_shop import ORDERS, Shop, new_shop, shown

STATUS: dict[str, Any] = {"columns": {"state": "status"}}
BOTH = pytest.mark.parametrize("mode", [STATUS, {"sidecar": True}], ids=["mapped", "sidecar"])

KEPT = """
create function S.kept() returns trigger language plpgsql as $$
begin
  if old.id = 1 then
    new.status := {status};
  end if;
  return new;
end
$$;
create trigger kept before update on S.orders for each row execute function S.kept()
"""


@pytest.fixture
def shop(postgres: Server) -> Iterator[Shop]:
    with new_shop(postgres) as shop:
        shop.execute(ORDERS)
        shop.execute("insert into S.orders (id) values (1), (2), (3)")
        yield shop


@pytest.mark.parametrize("status", ["old.status", "'another'"])
def test_a_row_that_a_trigger_makes_something_else_of_is_not_claimed(shop: Shop, status: str) -> None:
    table = shop.fit(**STATUS)
    shop.execute(KEPT.format(status=status))

    assert ids_of(take(table, limit=3)) == ["2", "3"]


def test_an_end_that_a_trigger_undoes_has_not_landed(shop: Shop) -> None:
    table = shop.fit(**STATUS)
    first, second = take(table, limit=2)
    shop.execute(KEPT.format(status="old.status"))

    landed = table.settle([build_completion(first), build_completion(second)])

    assert landed == [Unsettled(NO_EFFECT), True]
    assert shown(table) == [("1", "running"), ("2", "completed"), ("3", "queued")]


@BOTH
def test_a_row_that_is_gone_or_has_another_key_is_lost_to_its_holder(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(where="true", **mode)
    first, second, third = take(table, limit=3)
    shop.execute("delete from S.orders where id = 1")
    shop.execute("update S.orders set id = 22 where id = 2")

    held = [extend(table, each.hold) for each in (first, second, third)]
    landed = table.settle([build_completion(each) for each in (first, second, third)])

    assert held == [HoldStatus.LOST, HoldStatus.LOST, HoldStatus.HELD]
    assert landed == [False, False, True]


def test_beside_a_companion_nobody_who_writes_to_the_users_row_holds_up_an_operator(shop: Shop) -> None:
    table = shop.fit(sidecar=True, where="true")
    taken = take_one(table)

    with psycopg.connect(shop.url) as writing:
        writing.execute(shop.named("update S.orders set source = 'x'").encode())
        moved = table.move(["1", "2"], Move.CANCEL)

    assert [each.state for each in moved] == [State.RUNNING, State.CANCELLED]
    assert extend(table, taken.hold) is HoldStatus.CANCEL_REQUESTED
    assert shown(table) == [("1", "running"), ("2", "cancelled"), ("3", "queued")]


def test_a_moment_that_never_comes_is_not_waited_for(shop: Shop) -> None:
    table = shop.fit(**STATUS)
    shop.execute("update S.orders set tenure_run_at = 'infinity'")

    table.wait(None, None, 0.01)

    assert table.stats().total("scheduled") == 3
