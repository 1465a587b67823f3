"""Tests of the PostgreSQL test servers: start, durability, clean-up."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.processes.stage import PATIENCE, until
from tests.servers import cluster
from tests.servers.addresses import free_port
from tests.servers.home import NAME, clear_away_what_was_left, made_home
from tests.servers.postgres import OwnServer, Server
from tests.servers.process import Process, unprivileged
from tests.servers.servers import Servers

ROOT = Path(__file__).parents[2]

needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lists shared memory in a file, and tells of the death of a parent"
)

ABANDONED = """
import sys
from tests.servers.home import made_home
from tests.servers.servers import Servers

with made_home() as home, Servers(home).alone(sys.argv[1]) as server:
    print(home, server.url, sep="\\n", flush=True)
    sys.stdin.read()
"""


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def put(url: str, text: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create table if not exists notes (text text)")
        connection.execute("insert into notes values (%s)", [text])


def stored(url: str) -> object:
    return ask(url, "select string_agg(text, ' ') from notes")


def is_refused(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as exc:
        return "refused" in str(exc)
    return False


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def shared_memory_of(data: Path) -> int:
    """Return the id of the shared memory segment that locks the data directory."""
    return int((data / "postmaster.pid").read_text().splitlines()[6].split()[1])


def segments() -> dict[int, int]:
    """Return the number of attached processes by shared memory segment id."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return {int(line.split()[1]): int(line.split()[6]) for line in lines}


@pytest.fixture(params=cluster.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home() -> Iterator[Path]:
    with made_home() as home:
        yield home


def test_a_shared_server_is_of_the_version_that_it_tells(postgres: Server) -> None:
    assert str(ask(postgres.url, "show server_version")).startswith(f"{postgres.version}.")


def test_a_shared_server_is_one_and_the_same_for_all_tests_of_a_process(servers: Servers, name: str) -> None:
    first, second = servers.shared(name), servers.shared(name)

    assert first is second


def test_a_shared_server_has_room_for_many_and_spares_the_disk(servers: Servers, name: str) -> None:
    server = servers.shared(name)

    assert ask(server.url, "show max_connections") == "200"
    assert ask(server.url, "show fsync") == "off"
    assert ask(server.url, "show listen_addresses") == ""


def test_a_schema_becomes_part_of_the_url() -> None:
    assert Server("postgresql://h/d", 16).url_of("one") == "postgresql://h/d?schema=one"
    assert Server("postgresql:///d?host=/s", 16).url_of("one") == "postgresql:///d?host=/s&schema=one"


def test_a_server_of_ones_own_keeps_what_was_committed_by_default(own_postgres: OwnServer) -> None:
    settings = [ask(own_postgres.url, f"show {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")]

    assert settings == ["on", "on", "on"]


def test_a_server_of_ones_own_takes_settings(servers: Servers, name: str) -> None:
    with servers.alone(name, {"fsync": "off", "max_connections": "17"}, over_tcp=False) as server:
        settings = [ask(server.url, f"show {each}") for each in ("fsync", "max_connections", "listen_addresses")]

    assert settings == ["off", "17", ""]


def test_a_server_listens_on_no_standard_port_and_only_for_this_machine(own_postgres: OwnServer) -> None:
    assert ask(own_postgres.url, "show listen_addresses") == "127.0.0.1"
    assert 20_000 <= int(str(ask(own_postgres.url, "show port"))) < 32_000


def test_a_free_port_is_one_on_which_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        assert free_port() != taken.getsockname()[1]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_stopped_server_starts_again_at_the_same_place_with_what_was_committed(
    own_postgres: OwnServer, mode: str
) -> None:
    put(own_postgres.url, "one")

    own_postgres.stop("fast" if mode == "fast" else "immediate")
    with pytest.raises(psycopg.OperationalError, match="refused"):
        stored(own_postgres.url)
    own_postgres.start()

    put(own_postgres.url, "two")
    assert stored(own_postgres.url) == "one two"


def test_a_killed_server_starts_again_with_what_was_committed(own_postgres: OwnServer) -> None:
    put(own_postgres.url, "one")
    with psycopg.connect(own_postgres.url) as unfinished:
        unfinished.execute("insert into notes values ('lost')")

        own_postgres.kill()
        own_postgres.start()

        with pytest.raises(psycopg.OperationalError):
            unfinished.execute("insert into notes values ('lost')")
    assert stored(own_postgres.url) == "one"


@needs_linux
def test_a_killed_server_is_gone_with_all_who_served_its_clients(own_postgres: OwnServer) -> None:
    segment = shared_memory_of(own_postgres._data)
    with psycopg.connect(own_postgres.url):
        assert segments()[segment] > 1

        own_postgres.kill()

        assert segments()[segment] == 0


def test_a_server_that_is_down_cannot_be_stopped_and_one_that_runs_cannot_be_started(own_postgres: OwnServer) -> None:
    with pytest.raises(RuntimeError, match="is running; stop or kill it first"):
        own_postgres.start()
    own_postgres.stop()

    with pytest.raises(RuntimeError, match="is down; start it first"):
        own_postgres.kill()


def test_a_server_that_cannot_start_says_why(servers: Servers, name: str) -> None:
    with (
        pytest.raises(RuntimeError, match=r"did not start:\n.*unrecognized configuration parameter"),
        servers.alone(name, {"nothing": "on"}),
    ):
        pass


@needs_linux
def test_a_server_leaves_no_process_no_file_and_no_shared_memory_even_when_killed(servers: Servers, name: str) -> None:
    with servers.alone(name) as server:
        folder, pid, segment = server._folder, server.pid or 0, shared_memory_of(server._data)
        assert segment in segments()
        server.kill()
        assert segment in segments()

    assert not is_alive(pid)
    assert segment not in segments()
    assert not folder.exists()


@needs_linux
def test_a_server_ends_when_whoever_started_it_is_killed_and_the_next_run_removes_its_files(name: str) -> None:
    command = [sys.executable, "-c", ABANDONED, name]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        left, url = Path(run.stdout.readline().strip()), run.stdout.readline().strip()
        (data,) = left.glob("s-*/data")
        segment = shared_memory_of(data)
        run.kill()

    until(lambda: is_refused(url))
    until(lambda: segment not in segments())
    clear_away_what_was_left(left.parent)
    until(lambda: not left.exists())


def test_the_files_of_a_run_stay_while_it_lasts(home: Path) -> None:
    clear_away_what_was_left(home.parent)

    assert home.name.startswith(NAME)
    assert home.exists()


def test_the_data_directory_is_made_once_for_all_processes_of_a_run(home: Path) -> None:
    name = cluster.names()[0]
    first = cluster.prepare(name, home)
    (first.template / "mark").touch()

    again = cluster.prepare(name, home)

    assert again == first
    assert (again.template / "mark").exists()


def test_what_a_killed_process_left_unfinished_is_made_anew(home: Path) -> None:
    name = cluster.names()[0]
    unfinished = home / name / "unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "half").touch()

    template = cluster.prepare(name, home).template

    assert (template / "PG_VERSION").exists()
    assert not (template / "half").exists()


def test_ending_a_process_waits_for_the_children_that_it_leaves(home: Path) -> None:
    script = 'sleep 60 & echo $! > "$1"; wait'
    account, told = unprivileged(), home / "told"
    told.touch()
    account.own(told)
    process = Process(["sh", "-c", script, "sh", told], account, home / "log", signal.SIGKILL)
    child = int(until(told.read_text))

    waiting = threading.Thread(target=process.end, args=[signal.SIGKILL], daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    os.kill(child, signal.SIGKILL)

    waiting.join(PATIENCE)
    assert not waiting.is_alive()
