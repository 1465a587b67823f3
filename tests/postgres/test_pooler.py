"""The test pooler changes sessions as documented."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from tests.postgres.pooler import Pooler
from tests.processes.stage import PATIENCE, until
from tests.servers.postgres import Server

WHICH = "select pg_backend_pid()"
SLEEP = "select pg_sleep(3600)"


@pytest.fixture
def pooler(postgres: Server) -> Iterator[Pooler]:
    with Pooler(postgres) as pooler:
        yield pooler


def session_of(connection: psycopg.Connection) -> int:
    """Return the pid of the current session."""
    ((pid,),) = connection.execute(WHICH).fetchall()
    return int(pid)


def test_a_client_has_one_session_in_a_transaction_and_another_in_the_next(pooler: Pooler) -> None:
    with psycopg.connect(pooler.url) as connection:
        first = [session_of(connection), session_of(connection)]
        connection.commit()
        second = session_of(connection)

    assert first == [first[0]] * 2
    assert second != first[0]
    assert {first[0], second} <= pooler.pids


def test_a_client_gets_another_session_though_the_others_have_theirs(pooler: Pooler) -> None:
    with psycopg.connect(pooler.url, autocommit=True) as connection, psycopg.connect(pooler.url) as other:
        session_of(other)

        sessions = [session_of(connection) for _ in range(4)]

    assert len(set(sessions)) == 2
    assert all(first != second for first, second in pairwise(sessions))


def test_what_one_client_leaves_in_a_session_another_finds(pooler: Pooler) -> None:
    with ExitStack() as clients:
        for _ in pooler.pids:
            connection = clients.enter_context(psycopg.connect(pooler.url))
            connection.execute("set work_mem = '77MB'")

    with psycopg.connect(pooler.url) as another:
        assert another.execute("show work_mem").fetchone() == ("77MB",)


def test_who_finds_no_session_waits_for_one(pooler: Pooler) -> None:
    with ExitStack() as clients:
        busy = [clients.enter_context(psycopg.connect(pooler.url)) for _ in pooler.pids]
        for each in busy:
            session_of(each)
        waiting = clients.enter_context(psycopg.connect(pooler.url))
        found: list[int] = []
        asking = threading.Thread(target=lambda: found.append(session_of(waiting)), daemon=True)
        asking.start()
        asking.join(0.2)
        assert found == []

        freed = session_of(busy[1])
        busy[1].commit()

        asking.join(PATIENCE)
        assert found == [freed]


def test_the_session_of_a_client_that_leaves_in_a_transaction_is_replaced(pooler: Pooler) -> None:
    connection = psycopg.connect(pooler.url)
    left = session_of(connection)

    connection.close()

    until(lambda: left not in pooler.pids and len(pooler.pids) == 3)


def test_a_session_that_the_server_ends_is_replaced(postgres: Server, pooler: Pooler) -> None:
    before = pooler.pids
    with psycopg.connect(postgres.url, autocommit=True) as direct:
        for pid in before:
            direct.execute("select pg_terminate_backend(%s)", [pid])

    until(lambda: len(pooler.pids) == 3 and not pooler.pids & before)
    with psycopg.connect(pooler.url) as connection:
        assert session_of(connection) in pooler.pids


def cancel_when_it_sleeps(postgres: Server, connection: psycopg.Connection[Any]) -> None:
    """Cancel the statement of a pooler client as soon as the server executes it."""
    with psycopg.connect(postgres.url, autocommit=True) as direct:
        until(lambda: direct.execute("select from pg_stat_activity where query = %s", [SLEEP]).rowcount)
    connection.cancel_safe()


def test_a_client_is_told_another_number_than_that_of_any_session_and_can_cancel_by_it(
    postgres: Server, pooler: Pooler
) -> None:
    with psycopg.connect(pooler.url) as connection:
        session_of(connection)
        canceling = threading.Thread(target=cancel_when_it_sleeps, args=(postgres, connection), daemon=True)
        canceling.start()

        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(SLEEP)

        canceling.join()
        assert connection.info.backend_pid not in pooler.pids


def test_options_are_refused_or_ignored(postgres: Server, pooler: Pooler) -> None:
    options = "-c work_mem=77MB"
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
        psycopg.connect(pooler.url, options=options)

    with Pooler(postgres, options="ignored") as other, psycopg.connect(other.url, options=options) as connection:
        assert connection.execute("show work_mem").fetchone() != ("77MB",)


def test_who_names_another_user_or_database_is_not_let_in(pooler: Pooler) -> None:
    with pytest.raises(psycopg.OperationalError, match="no such user, or no such database"):
        psycopg.connect(pooler.url, user="nobody")

    with pytest.raises(psycopg.OperationalError, match="no such user, or no such database"):
        psycopg.connect(pooler.url, dbname="nothing")


def test_what_is_prepared_is_missing_in_the_next_session_unless_the_pooler_keeps_track(
    postgres: Server, pooler: Pooler
) -> None:
    with psycopg.connect(pooler.url, autocommit=True) as connection, pytest.raises(psycopg.errors.Error) as told:
        for _ in range(3):
            connection.execute(WHICH, prepare=True)
    assert isinstance(told.value, psycopg.errors.InvalidSqlStatementName)

    with Pooler(postgres, keeps_track=True) as other, psycopg.connect(other.url, autocommit=True) as connection:
        sessions = [connection.execute(WHICH, prepare=True).fetchone() for _ in range(5)]
        names = connection.execute("select distinct name from pg_prepared_statements where statement = %s", [WHICH])

    assert len(set(sessions)) == 3
    assert names.fetchall() == [("POOLER_0",)]


def test_much_passes_in_both_directions_at_once(pooler: Pooler) -> None:
    text = "x" * 200_000

    with psycopg.connect(pooler.url) as connection, connection.pipeline():
        answers = [connection.execute("select %s::text", [text]) for _ in range(50)]
        lengths = [len(row[0]) for row in (each.fetchone() for each in answers) if row is not None]

    assert lengths == [len(text)] * 50
