"""A store in a cluster is on one server at a time, and every client finds the server."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

import tenure
from tenure.backends.redis.address import address_of
from tenure.backends.redis.cluster import Cluster
from tenure.backends.redis.listener import Listener
from tenure.backends.redis.server import Server
from tenure.errors import ConfigurationError, StoreUnavailable
from tests.processes.stage import PATIENCE, until
from tests.redis.asking import count, in_a_thread, opened, refusal_at, refusal_of, server_at
from tests.redis.scripts import COUNT, script
from tests.redis.stores import Place, new_place
from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.redis import OwnRedis, names
from tests.servers.redis_cluster import MASTERS, RedisCluster, slot_of
from tests.servers.servers import Servers
from tests.tiers import only_in_all

pytestmark = only_in_all

BOTH = script("return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])", "number", "other")
"""A script with two keys, which may be on different servers during a move."""


@pytest.fixture
def place(redis_cluster: RedisCluster) -> Iterator[Place]:
    with new_place(redis_cluster.url) as place:
        yield place


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    with opened(place.url) as server:
        yield server


def another(cluster: RedisCluster, place: Place) -> int:
    """Return the number of a primary that does not serve the store."""
    return (cluster.owner_of(slot_of(place.prefix)) + 1) % MASTERS


@pytest.mark.parametrize("number", range(MASTERS))
def test_a_store_is_found_by_way_of_any_of_its_servers(redis_cluster: RedisCluster, place: Place, number: int) -> None:
    url = f"redis+cluster://{LOOPBACK}:{redis_cluster.masters[number].port}?prefix={place.prefix}"

    with closing(server_at(url)) as server:
        assert server.run(COUNT, [1], may_repeat=False) == 1


def test_a_store_that_has_moved_is_followed_and_nothing_is_done_twice(
    redis_cluster: RedisCluster, place: Place, server: Server
) -> None:
    count(server)
    redis_cluster.move_slot(slot_of(place.prefix), another(redis_cluster, place))

    assert server.run(COUNT, [1], may_repeat=False) == 2
    assert server.run(COUNT, [1], may_repeat=False) == 3


def test_a_store_that_has_moved_is_asked_there_at_once_from_then_on(
    redis_cluster: RedisCluster, place: Place, server: Server
) -> None:
    to = another(redis_cluster, place)
    redis_cluster.move_slot(slot_of(place.prefix), to)
    count(server)

    with server._pool.connection() as wire:
        assert wire.node == (LOOPBACK, redis_cluster.masters[to].port)


def test_calls_are_heard_at_the_server_that_has_the_store_now(
    redis_cluster: RedisCluster, place: Place, server: Server
) -> None:
    channel = place.key("channel")
    with closing(Listener(server, channel, on_notification=lambda _: None, on_change=lambda: None)) as listener:
        listener.ensure_listening()
        until(lambda: listener.is_connected)
        to = redis_cluster.masters[another(redis_cluster, place)]

        redis_cluster.move_slot(slot_of(place.prefix), redis_cluster.masters.index(to))
        count(server)
        place.execute("PUBLISH", channel, "heard at every node")

        with redis.Redis(host=LOOPBACK, port=to.port) as client:
            until(lambda: dict(client.pubsub_numsub(channel)) == {channel.encode(): 1})


def test_a_store_on_its_way_is_asked_where_its_key_has_arrived(
    redis_cluster: RedisCluster, place: Place, server: Server
) -> None:
    count(server)

    with redis_cluster.moving_slot(slot_of(place.prefix), another(redis_cluster, place)) as move_keys:
        before = server.run(COUNT, [1], may_repeat=False)
        move_keys()
        after = server.run(COUNT, [1], may_repeat=False)

    assert (before, after) == (2, 3)
    assert server.run(COUNT, [1], may_repeat=False) == 4


def test_who_needs_keys_of_a_store_on_its_way_waits_until_it_has_arrived(
    redis_cluster: RedisCluster, place: Place, server: Server
) -> None:
    count(server)
    answers: list[int] = []

    with redis_cluster.moving_slot(slot_of(place.prefix), another(redis_cluster, place)) as move_keys:
        move_keys()
        asking = in_a_thread(lambda: answers.append(server.run(BOTH, [], may_repeat=False)))
    asking.join(PATIENCE)

    assert answers == [3]


def test_who_cannot_wait_so_long_is_told_why(redis_cluster: RedisCluster, place: Place) -> None:
    with opened(f"{place.url}&timeout=1") as server:
        count(server)
        with redis_cluster.moving_slot(slot_of(place.prefix), another(redis_cluster, place)) as move_keys:
            move_keys()
            raised = refusal_of(server, BOTH, may_repeat=False)

    assert type(raised) is StoreUnavailable
    assert "is moving the store from one node to another; retry" in str(raised)


def test_a_cluster_by_a_url_for_one_server_is_refused_at_once_with_the_remedy(
    redis_cluster: RedisCluster, place: Place
) -> None:
    wrong = redis_cluster.masters[another(redis_cluster, place)]

    raised = refusal_at(f"{wrong.url_of(place.prefix)}&timeout=3600")

    assert type(raised) is ConfigurationError
    assert "is part of a cluster" in str(raised)
    assert "begin the URL with 'redis+cluster://'" in str(raised)


def test_one_server_by_a_url_for_a_cluster_is_refused_with_the_remedy(own_redis: OwnRedis) -> None:
    raised = refusal_at(own_redis.url.replace("redis:", "redis+cluster:"))

    assert type(raised) is ConfigurationError
    assert "is not a cluster" in str(raised)
    assert "begin the URL with 'redis://'" in str(raised)


def test_a_cluster_that_is_not_there_is_told_about_at_once() -> None:
    raised = refusal_at(f"redis+cluster://{LOOPBACK}:{free_port()}")

    assert type(raised) is StoreUnavailable
    assert "refused" in str(raised)


def test_a_server_that_is_restarted_is_waited_for_by_one_who_reached_it_before(servers: Servers) -> None:
    """Slow: a server of the cluster stops and starts."""
    with closing(RedisCluster(names()[-1], servers._home)) as cluster, opened(cluster.url_of("mail")) as server:
        master = cluster.masters[cluster.owner_of(slot_of("mail"))]
        master.kill()
        asking = in_a_thread(lambda: server.run(COUNT, [1], may_repeat=False))
        master.start()
        asking.join(PATIENCE)

        assert count(server) == 2


def test_the_others_are_asked_when_the_server_of_the_url_is_away(servers: Servers) -> None:
    with closing(RedisCluster(names()[-1], servers._home)) as masters:
        owners = {prefix: masters.owner_of(slot_of(prefix)) for prefix in ("mail", "shop", "cron", "bills")}
        prefix, owner = next((prefix, owner) for prefix, owner in owners.items() if owner)
        url = masters.url_of(prefix)
        cluster = Cluster(address_of(url, url))
        cluster.connect().close()
        masters.masters[0].kill()
        cluster.handle_error(redis.ConnectionError("it is gone"), None)

        with closing(cluster.connect()) as wire:
            assert wire.node == (LOOPBACK, masters.masters[owner].port)


def test_jobs_are_kept_and_claimed_in_a_cluster(place: Place) -> None:
    with tenure.Jobs(place.url) as jobs:
        id = jobs.enqueue("send", {"to": "ada"})
        with jobs.claim() as claims:
            found = [claim.job.id for claim in claims]

    assert found == [id]
