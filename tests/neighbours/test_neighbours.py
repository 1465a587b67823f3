"""A short run of `./dev prove neighbours` on each store and each kind of table."""

import pytest

from tests.neighbours.targets import default_names
from tests.prove.neighbours import prove
from tests.servers.servers import Servers
from tests.tiers import only_in_all

PATIENCE = 120.0


@only_in_all
@pytest.mark.parametrize("name", default_names())
def test_a_bad_member_delays_only_itself(name: str, servers: Servers) -> None:
    """Slow: leases expire, and another connection holds locks for longer than a lease."""
    holds, found = prove(name, servers, 300, fixed=PATIENCE)

    assert [statement for statement, it_holds in holds.items() if not it_holds] == [], found["faults"]
