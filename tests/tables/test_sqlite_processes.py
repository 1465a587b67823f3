"""Many processes on one table: racing, killed, frozen."""

from pathlib import Path

import pytest

from tests.tables.lite import KINDS, execute, given_orders, rows
from tests.tables.lite_scenes import play
from tests.tiers import first_in_all_tiers, only_in_all

ROWS = 300


@pytest.mark.parametrize("kind", first_in_all_tiers(KINDS))
def test_after_deaths_each_row_has_one_output_and_none_is_lost(path: Path, kind: str) -> None:
    """Slow: processes die and are replaced, and their leases expire."""
    given_orders(path, *["pending"] * ROWS)
    execute(path, "create table outputs (order_id integer, fence integer)")
    path.with_suffix(".rows").write_text(str(ROWS))

    seen = play("storm", path, kind, 3, 8)

    assert seen == {"deaths": [-9] * 8, "codes": [0, 0, 0]}
    assert rows(path, "select count(*), count(distinct order_id) from outputs") == [(ROWS, ROWS)]
    assert rows(path, "select count(*) from outputs where fence > 1")[0][0] >= 8 * 3 - 2
    assert rows(path, "pragma integrity_check") == [("ok",)]


@only_in_all
@pytest.mark.parametrize("kind", first_in_all_tiers(KINDS))
def test_a_holder_that_was_frozen_past_its_lease_is_told_that_it_lost_the_row(path: Path, kind: str) -> None:
    """Slow: processes start, and a lease expires."""
    given_orders(path, "pending")

    seen = play("zombie", path, kind)

    assert seen == {
        "said": ["held", "lost"],
        "landed": [True],
        "state": "completed",
        "worker": "other",
        "fence": 2,
        "codes": [0],
    }
