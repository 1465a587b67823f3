"""Tests of the Redis and Valkey test servers: start, durability, clean-up."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import AskError, AuthenticationError, MovedError, NoPermissionError
from redis.retry import Retry

from tests.processes.stage import until
from tests.servers.home import clear_away_what_was_left
from tests.servers.prefixes import client_of, client_of_cluster, keys_under
from tests.servers.redis import FAST, WHEELS, OwnRedis, RedisServer, given, names, program_of, programs
from tests.servers.redis_cluster import MASTERS, SLOTS, RedisCluster, slot_of
from tests.servers.servers import REDIS_CLUSTER, Servers, shared_redis_clusters, shared_redis_names
from tests.servers.test_servers import ROOT, is_alive, needs_linux

ABANDONED = """
import sys
from tests.servers.home import made_home
from tests.servers.servers import Servers

with made_home() as home, Servers(home).own_redis(sys.argv[1]) as server:
    print(home, server.url, sep="\\n", flush=True)
    sys.stdin.read()
"""

ONCE = Retry(NoBackoff(), 0)


def asking_once(url: str, **options: Any) -> redis.Redis:
    """Return a client that does not retry and decodes responses."""
    return redis.Redis.from_url(url, retry=ONCE, decode_responses=True, **options)


def setting(url: str, name: str) -> str:
    with asking_once(url) as client:
        return str(client.config_get(name)[name])


def is_refused(url: str) -> bool:
    with asking_once(url) as client:
        try:
            client.ping()
        except redis.ConnectionError as exc:
            return "refused" in str(exc)
    return False


@pytest.fixture(params=names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(own_redis: OwnRedis) -> Iterator[redis.Redis]:
    with asking_once(own_redis.url) as client:
        yield client


@pytest.fixture
def of_cluster(redis_cluster: RedisCluster) -> Iterator[redis.RedisCluster]:
    with client_of_cluster(redis_cluster.url.replace("+cluster", ""), decode_responses=True) as client:
        yield client


@pytest.fixture
def prefix(servers: Servers) -> Iterator[str]:
    """A prefix on the cluster."""
    prefix = servers.prefixes.take()
    yield prefix
    servers.prefixes.give_back(servers.shared_redis(REDIS_CLUSTER), prefix)


def test_a_shared_server_is_of_the_version_that_it_tells(servers: Servers, name: str) -> None:
    server = servers.shared_redis(name)

    assert server == given(server.url)


@pytest.mark.parametrize("name", [name for name in names() if name in WHEELS])
def test_a_server_from_a_wheel_is_of_the_version_that_its_name_says(servers: Servers, name: str) -> None:
    kind, version = name.split("-")

    server = servers.shared_redis(name)

    assert program_of(name).name == f"{kind}-server"
    assert server.version.startswith(f"{version}.")


def test_where_there_is_no_wheel_the_server_that_is_installed_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "redis-server"
    program.symlink_to(program_of(names()[-1]))
    monkeypatch.setattr("tests.servers.redis.WHEELS", {"redis-6.2": ("no_such_package", "redis-server")})
    monkeypatch.setenv("PATH", str(tmp_path))

    assert programs() == {"redis-system": program}


def test_where_there_is_no_server_at_all_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.servers.redis.WHEELS", {})
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TEST_REDIS_URL", raising=False)

    with pytest.raises(RuntimeError, match="no Redis and no Valkey to test with; install requirements"):
        shared_redis_names()


def test_a_shared_server_is_one_and_the_same_for_all_tests_of_a_process(servers: Servers, name: str) -> None:
    first, second = servers.shared_redis(name), servers.shared_redis(name)

    assert first is second


def test_a_shared_server_spares_the_disk_and_listens_on_no_port(servers: Servers, name: str) -> None:
    server = servers.shared_redis(name)

    assert [setting(server.url, each) for each in ("save", "appendonly", "port")] == ["", "no", "0"]


def test_a_prefix_becomes_part_of_the_url() -> None:
    assert RedisServer("redis://h/0", "9").url_of("one") == "redis://h/0?prefix=one"
    assert RedisServer("unix:///s?db=1", "9").url_of("one") == "unix:///s?db=1&prefix=one"


def test_a_server_that_is_given_is_the_only_one_to_share(monkeypatch: pytest.MonkeyPatch, servers: Servers) -> None:
    url = servers.shared_redis(shared_redis_names()[-1]).url
    monkeypatch.setenv("TEST_REDIS_URL", url)

    (only,) = shared_redis_names()

    assert only == "redis-given"
    assert shared_redis_clusters() == []
    assert servers.shared_redis(only).url == url


def test_a_server_that_is_not_here_is_told_with_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"no redis-2 to test with; install requirements/test.txt, or set TEST_R"):
        program_of("redis-2")


def test_a_server_of_ones_own_has_the_settings_of_the_program(servers: Servers, name: str) -> None:
    with servers.own_redis(name) as server:
        assert setting(server.url, "save") == "3600 1 300 100 60 10000"
        assert setting(server.url, "maxmemory-policy") == "noeviction"


def test_a_server_of_ones_own_takes_settings(servers: Servers, name: str) -> None:
    with servers.own_redis(name, {"maxmemory-policy": "allkeys-lru", "save": '""'}, over_tcp=False) as server:
        assert [setting(server.url, each) for each in ("maxmemory-policy", "save", "port")] == ["allkeys-lru", "", "0"]


def test_a_server_of_ones_own_takes_users_and_passwords(servers: Servers, name: str) -> None:
    users = ["ada on >wonder ~* &* +@all", "bob on >builder ~* &* +ping"]
    with servers.own_redis(name, {"requirepass": "secret", "user": users}) as server:
        with asking_once(server.url, username="ada", password="wonder") as ada:
            assert ada.set("key", "value")
        with asking_once(server.url, password="secret") as anybody:
            assert anybody.get("key") == "value"
        with (
            asking_once(server.url, username="bob", password="builder") as bob,
            pytest.raises(NoPermissionError),
        ):
            bob.get("key")
        with asking_once(server.url) as nobody, pytest.raises(AuthenticationError):
            nobody.get("key")


def test_a_server_listens_on_no_standard_port_and_only_for_this_machine(own_redis: OwnRedis) -> None:
    assert setting(own_redis.url, "bind") == "127.0.0.1"
    assert 20_000 <= int(setting(own_redis.url, "port")) < 32_000


def test_a_stopped_server_starts_again_at_the_same_place_with_what_it_had(
    own_redis: OwnRedis, client: redis.Redis
) -> None:
    client.set("one", 1)

    own_redis.stop()
    assert is_refused(own_redis.url)
    own_redis.start()

    assert client.get("one") == "1"


def test_a_killed_server_starts_again_with_all_that_it_acknowledged(own_redis: OwnRedis, client: redis.Redis) -> None:
    for number in range(100):
        client.set(f"key-{number}", number)

    own_redis.kill()
    own_redis.start()

    assert client.dbsize() == 100


def test_a_killed_server_that_keeps_nothing_starts_again_empty(servers: Servers, name: str) -> None:
    with servers.own_redis(name, FAST, over_tcp=False) as server, asking_once(server.url) as client:
        client.set("one", 1)

        server.kill()
        server.start()

        assert client.dbsize() == 0


def test_a_paused_server_answers_when_it_goes_on(own_redis: OwnRedis) -> None:
    with asking_once(own_redis.url, socket_timeout=0.2) as hasty, asking_once(own_redis.url) as patient:
        own_redis.pause()
        with pytest.raises(redis.TimeoutError):
            hasty.ping()
        own_redis.resume()

        assert patient.ping()


def test_a_paused_server_can_be_killed(own_redis: OwnRedis, client: redis.Redis) -> None:
    client.set("one", 1)
    own_redis.pause()

    own_redis.kill()
    own_redis.start()

    assert client.get("one") == "1"


def test_a_server_that_is_down_cannot_be_stopped_and_one_that_runs_cannot_be_started(own_redis: OwnRedis) -> None:
    with pytest.raises(RuntimeError, match="is running; stop or kill it first"):
        own_redis.start()
    own_redis.stop()

    for each in (own_redis.stop, own_redis.kill, own_redis.pause, own_redis.resume):
        with pytest.raises(RuntimeError, match="is down; start it first"):
            each()


def test_a_server_that_cannot_start_says_why(servers: Servers, name: str) -> None:
    with (
        pytest.raises(RuntimeError, match=r"-server did not start:\n(.*\n)*.*nothing on"),
        servers.own_redis(name, {"nothing": "on"}),
    ):
        pass


def test_a_server_leaves_no_process_and_no_file_even_when_killed(servers: Servers, name: str) -> None:
    with servers.own_redis(name) as server:
        folder, pid = server._folder, server.pid or 0
        assert is_alive(pid)
        server.kill()

    assert not is_alive(pid)
    assert not folder.exists()


@needs_linux
def test_a_server_ends_when_whoever_started_it_is_killed_and_the_next_run_removes_its_files(name: str) -> None:
    command = [sys.executable, "-c", ABANDONED, name]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        left, url = Path(run.stdout.readline().strip()), run.stdout.readline().strip()
        run.kill()

    until(lambda: is_refused(url))
    clear_away_what_was_left(left.parent)
    until(lambda: not left.exists())


@pytest.mark.parametrize("store", [*shared_redis_names(), *shared_redis_clusters()])
def test_what_is_under_a_prefix_is_removed_when_it_is_given_back(servers: Servers, store: str) -> None:
    prefixes, server = servers.prefixes, servers.shared_redis(store)
    one, other = prefixes.take(), prefixes.take()
    with client_of(server.url) as client:
        for key in (f"{{{one}}}:a", f"{{{one}}}:b", f"{{{other}}}:a"):
            client.set(key, 1)

        prefixes.give_back(server, one)

        assert keys_under(one, client) == []
        assert keys_under(other, client) == [f"{{{other}}}:a"]
    prefixes.give_back(server, other)


def test_the_cluster_has_three_masters_that_share_all_slots(redis_cluster: RedisCluster) -> None:
    owners = [redis_cluster.owner_of(slot) for slot in range(0, SLOTS, 512)]

    assert set(owners) == set(range(MASTERS))
    for master in range(MASTERS):
        told = redis_cluster.ask(master, "INFO")
        assert "cluster_state:ok" in told
        assert f"cluster_slots_ok:{SLOTS}" in told
        assert f"cluster_known_nodes:{MASTERS}" in told


def test_the_cluster_is_of_the_newest_server_and_one_for_all(servers: Servers, redis_cluster: RedisCluster) -> None:
    assert servers.shared_redis(REDIS_CLUSTER).url == redis_cluster.url
    assert redis_cluster.version == servers.shared_redis(names()[-1]).version


def test_a_slot_is_moved_with_its_keys_and_the_former_master_says_where_to(
    redis_cluster: RedisCluster, of_cluster: redis.RedisCluster, prefix: str
) -> None:
    slot = slot_of(prefix)
    origin = redis_cluster.owner_of(slot)
    target = (origin + 1) % MASTERS
    of_cluster.mset({f"{{{prefix}}}:a": "1", f"{{{prefix}}}:b": "2"})

    redis_cluster.move_slot(slot, target)

    assert redis_cluster.owner_of(slot) == target
    assert of_cluster.mget(f"{{{prefix}}}:a", f"{{{prefix}}}:b") == ["1", "2"]
    with (
        asking_once(redis_cluster.masters[origin].url) as former,
        pytest.raises(MovedError, match=f"{slot} 127.0.0.1:{redis_cluster.masters[target].port}"),
    ):
        former.get(f"{{{prefix}}}:a")


def test_while_a_slot_moves_whoever_asks_for_what_is_not_there_is_sent_to_ask_the_next(
    redis_cluster: RedisCluster, of_cluster: redis.RedisCluster, prefix: str
) -> None:
    slot = slot_of(prefix)
    origin = redis_cluster.owner_of(slot)
    target = (origin + 1) % MASTERS
    of_cluster.set(f"{{{prefix}}}:a", "1")

    with redis_cluster.moving_slot(slot, target) as move, asking_once(redis_cluster.masters[origin].url) as former:
        assert former.get(f"{{{prefix}}}:a") == "1"
        move()
        with pytest.raises(AskError, match=f"{slot} 127.0.0.1:{redis_cluster.masters[target].port}"):
            former.get(f"{{{prefix}}}:a")

    assert of_cluster.get(f"{{{prefix}}}:a") == "1"


def test_a_slot_is_not_moved_to_where_it_is(redis_cluster: RedisCluster) -> None:
    owner = redis_cluster.owner_of(7)

    with pytest.raises(ValueError, match=f"slot 7 is at master {owner} already; name another one"):
        redis_cluster.move_slot(7, owner)
