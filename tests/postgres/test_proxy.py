"""The proxy breaks a connection exactly at the chosen message; the visible error depends on the driver."""

import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from tests.postgres.proxy import Proxy
from tests.postgres.wire import COMMAND_COMPLETE, DATA_ROW, PARSE, QUERY, READY, SYNC, TERMINATE, Message
from tests.processes.stage import PATIENCE, until
from tests.proxies import wire as proxied
from tests.proxies.points import after, before, from_client, from_server, within
from tests.servers.addresses import LOOPBACK
from tests.servers.postgres import OwnServer, Server

START = Message("client", "", (3 << 16).to_bytes(4) + b"user\0postgres\0\0").octets
SSL_REQUEST = Message("client", "", (80877103).to_bytes(4)).octets


class Notes:
    """A table for one test, read over a direct connection."""

    def __init__(self, server: Server) -> None:
        self._table = Identifier(f"notes_{uuid4().hex}")
        self._connection = psycopg.connect(server.url, autocommit=True)
        self._connection.execute(SQL("create table {} (text text)").format(self._table))

    def put(self, connection: Connection, text: str) -> None:
        connection.execute(SQL("insert into {} values (%s)").format(self._table), [text])

    def stored(self) -> list[str]:
        rows = self._connection.execute(SQL("select text from {} order by text").format(self._table))
        return [text for (text,) in rows]

    def is_connected(self, pid: int) -> bool:
        return self._connection.execute("select from pg_stat_activity where pid = %s", [pid]).fetchone() is not None

    def remove(self) -> None:
        self._connection.execute(SQL("drop table {}").format(self._table))
        self._connection.close()


@pytest.fixture
def notes(postgres: Server) -> Iterator[Notes]:
    notes = Notes(postgres)
    yield notes
    notes.remove()


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres) as proxy:
        yield proxy


@pytest.fixture
def connection(proxy: Proxy) -> Iterator[Connection]:
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        yield connection


def in_a_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def saying(proxy: Proxy, octets: bytes) -> socket.socket:
    """Open a raw connection to the proxy and send these bytes."""
    client = socket.create_connection((LOOPBACK, proxy.port), timeout=PATIENCE)
    client.sendall(octets)
    return client


def kinds(messages: list[proxied.Message]) -> str:
    return "".join(message.type for message in messages)


def test_what_is_said_passes_in_both_directions_and_is_recorded(proxy: Proxy, connection: Connection) -> None:
    row = connection.execute("select 'ada'").fetchone()

    assert row == ("ada",)
    assert any(from_client("SELECT 'ada'", QUERY).matches(each) for each in proxy.passed)
    assert any(from_server("ada", DATA_ROW).matches(each) for each in proxy.passed)
    assert proxy.passed[-1].type == READY


def test_a_schema_becomes_part_of_the_url(proxy: Proxy) -> None:
    assert proxy.url_of("one") == f"{proxy.url}?schema=one"


def test_encryption_is_refused(proxy: Proxy) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not support SSL"):
        psycopg.connect(f"{proxy.url}?sslmode=require")


def test_much_passes_in_both_directions_at_once(connection: Connection) -> None:
    text = "x" * 200_000

    with connection.pipeline():
        answers = [connection.execute("select %s::text", [text]) for _ in range(50)]
        lengths = [len(row[0]) for row in (each.fetchone() for each in answers) if row is not None]

    assert lengths == [len(text)] * 50


def test_a_cut_before_commit_is_passed_on_leaves_nothing_stored(proxy: Proxy, notes: Notes) -> None:
    cut = proxy.cut(before(from_client("commit")))

    with (
        pytest.raises(psycopg.OperationalError, match="closed the connection"),
        psycopg.connect(proxy.url) as connection,
    ):
        notes.put(connection, "one")

    assert cut.is_done
    assert notes.stored() == []


def test_a_cut_before_the_answer_to_commit_is_passed_on_leaves_what_was_stored(proxy: Proxy, notes: Notes) -> None:
    cut = proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))

    with (
        pytest.raises(psycopg.OperationalError, match="closed the connection"),
        psycopg.connect(proxy.url) as connection,
    ):
        notes.put(connection, "one")

    assert cut.is_done
    assert notes.stored() == ["one"]


def test_the_text_of_a_statement_is_found_in_a_pipeline_too(proxy: Proxy, notes: Notes) -> None:
    cut = proxy.cut(before(from_client("commit", PARSE)))

    with pytest.raises(psycopg.OperationalError), psycopg.connect(proxy.url) as connection, connection.pipeline():
        notes.put(connection, "one")
        connection.commit()

    assert cut.is_done
    assert notes.stored() == []


def test_a_cut_in_a_pipeline_before_the_answer_to_commit_leaves_what_was_stored(proxy: Proxy, notes: Notes) -> None:
    cut = proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))

    with pytest.raises(psycopg.OperationalError), psycopg.connect(proxy.url) as connection, connection.pipeline():
        notes.put(connection, "one")
        connection.commit()

    assert cut.is_done
    assert notes.stored() == ["one"]


def test_a_cut_after_a_message_lets_it_arrive(proxy: Proxy, connection: Connection, notes: Notes) -> None:
    pid = connection.info.backend_pid
    cut = proxy.cut(after(from_client(type=SYNC)))

    with pytest.raises(psycopg.OperationalError, match="closed the connection"):
        notes.put(connection, "one")

    assert cut.is_done
    until(lambda: not notes.is_connected(pid))
    assert notes.stored() == ["one"]
    assert proxy.passed[-1].type == SYNC


def test_a_cut_is_made_at_the_message_of_that_number(proxy: Proxy, connection: Connection, notes: Notes) -> None:
    cut = proxy.cut(before(from_client("insert"), number=3))

    notes.put(connection, "one")
    notes.put(connection, "two")
    assert not cut.is_done
    with pytest.raises(psycopg.OperationalError):
        notes.put(connection, "three")

    cut.wait()
    assert notes.stored() == ["one", "two"]


def test_a_cut_within_a_row_passes_one_half_of_it(proxy: Proxy, connection: Connection) -> None:
    cut = proxy.cut(within(from_server("b" * 100, DATA_ROW)))

    with pytest.raises(psycopg.OperationalError, match="closed the connection"):
        connection.execute("select repeat(c, 100) from unnest('{a,b,c}'::text[]) c")

    assert cut.is_done
    assert kinds(proxy.passed).endswith("TD")


def test_nothing_passes_behind_a_cut(proxy: Proxy, notes: Notes) -> None:
    cut = proxy.cut(after(from_server("INSERT 0 1", COMMAND_COMPLETE)))

    with pytest.raises(psycopg.OperationalError), psycopg.connect(proxy.url) as connection, connection.pipeline():
        for number in range(100):
            notes.put(connection, str(number))

    cut.wait()
    assert sum(from_server("INSERT 0 1", COMMAND_COMPLETE).matches(each) for each in proxy.passed) == 1


def test_a_cut_is_an_orderly_end_for_the_client_or_a_reset(proxy: Proxy) -> None:
    proxy.cut(before(from_client(type="")))
    with saying(proxy, START) as client:
        assert client.recv(1) == b""

    proxy.cut(before(from_client(type="")), reset=True)
    with saying(proxy, START) as client, pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_cut_happens_once_and_the_next_connection_is_as_any(proxy: Proxy, connection: Connection) -> None:
    proxy.cut(before(from_client("select 1")))
    with pytest.raises(psycopg.OperationalError):
        connection.execute("select 1")

    with psycopg.connect(proxy.url) as next:
        row = next.execute("select 1").fetchone()

    assert row == (1,)


def test_all_connections_can_be_cut_at_once(proxy: Proxy) -> None:
    connections = [psycopg.connect(proxy.url, autocommit=True) for _ in range(3)]

    proxy.cut_all()

    for each in connections:
        with pytest.raises(psycopg.OperationalError):
            each.execute("select 1")
        each.close()


def test_the_server_goes_on_while_its_answers_are_held(proxy: Proxy, connection: Connection, notes: Notes) -> None:
    with proxy.holding() as hold:
        asking = in_a_thread(lambda: notes.put(connection, "one"))
        hold.wait()
        until(lambda: notes.stored() == ["one"])
        assert asking.is_alive()

    asking.join(PATIENCE)
    assert not asking.is_alive()


def test_answers_are_held_from_the_point_that_is_named(proxy: Proxy, notes: Notes) -> None:
    connection = psycopg.connect(proxy.url)
    with proxy.holding(before(from_server("COMMIT", COMMAND_COMPLETE))) as hold:
        notes.put(connection, "one")
        asking = in_a_thread(connection.commit)
        hold.wait()
        assert notes.stored() == ["one"]
        assert asking.is_alive()

    asking.join(PATIENCE)
    assert not asking.is_alive()
    connection.close()


def test_answers_that_were_held_arrive_even_if_the_server_is_gone_by_then(own_postgres: OwnServer) -> None:
    answers: list[object] = []
    with Proxy(own_postgres) as proxy, psycopg.connect(proxy.url, autocommit=True) as connection:
        with proxy.holding(before(from_server(type=READY))) as hold:
            asking = in_a_thread(lambda: answers.append(connection.execute("select 7").fetchone()))
            hold.wait()

            own_postgres.kill()

        asking.join(PATIENCE)

    assert answers == [(7,)]


def test_a_server_that_was_started_again_is_found_again(own_postgres: OwnServer) -> None:
    with Proxy(own_postgres) as proxy:
        own_postgres.stop()
        with pytest.raises(psycopg.OperationalError, match="closed the connection"):
            psycopg.connect(proxy.url)

        own_postgres.start()

        psycopg.connect(proxy.url).close()


def test_a_hold_within_a_message_is_refused(proxy: Proxy) -> None:
    with pytest.raises(ValueError, match="only whole messages are held"), proxy.holding(within(from_server())):
        pass


def test_connections_can_be_refused_for_a_while(proxy: Proxy, connection: Connection) -> None:
    with proxy.refusing():
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(proxy.url)
        assert connection.execute("select 1").fetchone() == (1,)

    psycopg.connect(proxy.url).close()


def test_who_connects_while_others_begin_to_be_refused_leaves_nothing_open(
    proxy: Proxy, recwarn: pytest.WarningsRecorder
) -> None:
    ended = threading.Event()

    def connect() -> None:
        while not ended.is_set():
            with suppress(OSError):
                socket.create_connection((LOOPBACK, proxy.port), 1).close()

    clients = [threading.Thread(target=connect) for _ in range(3)]
    for client in clients:
        client.start()

    for _ in range(50):
        with proxy.refusing():
            pass
    ended.set()
    for client in clients:
        client.join()
    gc.collect()

    assert [str(each.message) for each in recwarn] == []


def test_a_black_hole_accepts_and_does_not_answer(proxy: Proxy) -> None:
    with saying(proxy, b"") as client:
        with proxy.black_hole():
            client.sendall(SSL_REQUEST)
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(1)

        client.settimeout(PATIENCE)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    psycopg.connect(proxy.url).close()


def test_in_a_black_hole_the_server_does_not_learn_that_the_client_has_left(
    proxy: Proxy, connection: Connection, notes: Notes
) -> None:
    pid = connection.info.backend_pid
    with proxy.black_hole():
        connection.close()
        until(lambda: kinds(proxy.swallowed) == TERMINATE)
        assert notes.is_connected(pid)

    until(lambda: not notes.is_connected(pid))


def test_in_a_black_hole_the_client_does_not_learn_that_the_server_has_left(own_postgres: OwnServer) -> None:
    with Proxy(own_postgres) as proxy, psycopg.connect(proxy.url, autocommit=True) as connection:
        with proxy.black_hole():
            own_postgres.stop()
            until(lambda: proxy.swallowed)
            client = socket.socket(fileno=os.dup(connection.fileno()))
            client.settimeout(0.2)
            with client, pytest.raises(TimeoutError):
                client.recv(1, socket.MSG_PEEK)

        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


def test_what_disappeared_in_a_black_hole_does_not_come_back(
    proxy: Proxy, connection: Connection, notes: Notes
) -> None:
    failures: list[Exception] = []

    def put() -> None:
        try:
            notes.put(connection, "one")
        except psycopg.OperationalError as exc:
            failures.append(exc)

    with proxy.black_hole():
        asking = in_a_thread(put)
        until(lambda: SYNC in kinds(proxy.swallowed))
        assert asking.is_alive()

    asking.join(PATIENCE)
    assert len(failures) == 1
    assert notes.stored() == []
