"""A connection that is cut during EVAL; the tests for every server are in tests/stores."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tenure.testing import Clock
from tests.operations import REPEATED, stored
from tests.servers.servers import Servers, shared_redis_names
from tests.stores.lost_answers import ProxiedRedis


@pytest.fixture(params=shared_redis_names())
def proxied(request: pytest.FixtureRequest, servers: Servers) -> Iterator[ProxiedRedis]:
    with ProxiedRedis.made(servers, request.param) as proxied:
        yield proxied


@pytest.mark.parametrize("operation", REPEATED)
def test_a_script_that_is_sent_whole_and_cut_off_is_done_once(proxied: ProxiedRedis, operation: str) -> None:
    clock = Clock()
    expected = proxied.undisturbed(REPEATED[operation])
    with closing(proxied.open(clock)) as store, proxied.through(clock) as through:
        jobs = proxied.given(store, clock)
        proxied.prefix.execute("SCRIPT FLUSH")
        made = proxied.proxy.drop_answer("EVAL")

        answer = REPEATED[operation](through, jobs)

        assert made.is_done
        assert (answer, stored(store)) == expected
        assert proxied.faults() == {}
