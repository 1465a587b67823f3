"""Several processes on one table: racing, killed, and suspended until their leases expire."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from tenure.testing.conformance.building import Taken
from tests.servers.servers import Servers, shared_names
from tests.tables.postgres_hands import LEASE, MODES, claimed, has_worked_on
from tests.tables.postgres_shop import ORDERS, Shop, new_shop, shown
from tests.tiers import first_in_all_tiers, only_in_all

ROWS, KILLED, LEFT = 200, 3, 2
PATIENCE = 120


@pytest.fixture
def shop(servers: Servers) -> Iterator[Shop]:
    with new_shop(servers.shared(shared_names()[-1])) as shop:
        shop.execute(ORDERS)
        shop.execute("create table S.invoices (order_id bigint not null references S.orders, fence bigint not null)")
        yield shop


@contextmanager
def hand(shop: Shop, work: str, mode: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.tables.postgres_hands", work, shop.url, shop.schema, mode]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heard(process: "subprocess.Popen[str]") -> list[object]:
    assert process.stdout is not None
    found: list[object] = json.loads(process.stdout.readline())
    return found


def tell(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go on\n")
    process.stdin.flush()


@pytest.mark.parametrize("mode", first_in_all_tiers(MODES))
def test_each_row_has_one_output_whoever_is_killed_meanwhile(shop: Shop, mode: str) -> None:
    """Slow: processes are killed and replaced, and leases expire."""
    shop.execute(f"insert into S.orders (id) select generate_series(1, {ROWS})")
    table = shop.fit(where="true", max_attempts=None, max_crashes=1_000, **MODES[mode])
    with ExitStack() as stack:
        hands = [stack.enter_context(hand(shop, "drain", mode)) for _ in range(KILLED + LEFT)]
        for each in hands:
            heard(each)
        for each in hands:
            tell(each)

        for each in hands[:KILLED]:
            while not heard(each):
                pass
            os.kill(each.pid, signal.SIGKILL)
        for each in hands:
            each.communicate(timeout=PATIENCE)

    found = shop.execute("select count(*), count(distinct order_id) from S.invoices")
    assert [each.returncode for each in hands] == [-signal.SIGKILL] * KILLED + [0] * LEFT
    assert found == [(ROWS, ROWS)]
    assert table.stats().total("completed") == ROWS


@only_in_all
@pytest.mark.parametrize("mode", first_in_all_tiers(MODES))
def test_who_was_stopped_past_its_lease_commits_nothing(shop: Shop, mode: str) -> None:
    """Slow: processes start, and a lease expires."""
    shop.execute("insert into S.orders (id) select generate_series(1, 5)")
    table = shop.fit(where="true", max_attempts=None, max_crashes=1_000, **MODES[mode])
    with hand(shop, "wait", mode) as zombie:
        held = heard(zombie)
        os.kill(zombie.pid, signal.SIGSTOP)

        taken: list[Taken] = []
        while len(taken) < len(held):
            table.wait(None, None, LEASE)
            taken += claimed(table, limit=5, lease=60)
        with psycopg.connect(shop.url) as connection:
            landed = [has_worked_on(table, connection, shop.schema, each) for each in taken]
        os.kill(zombie.pid, signal.SIGCONT)
        late, _ = zombie.communicate("go on\n", timeout=PATIENCE)

    assert held == ["1", "2", "3", "4", "5"]
    assert landed == [True] * 5
    assert json.loads(late) == [False] * 5
    assert shop.execute("select order_id, fence from S.invoices order by 1") == [(n, 2) for n in range(1, 6)]
    assert shown(table) == [(str(n), "completed") for n in range(1, 6)]
