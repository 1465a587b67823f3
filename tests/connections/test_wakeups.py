"""A commit of the caller wakes waiting workers if the driver has a commit hook; nothing wakes them earlier."""

from uuid import uuid4

import pytest
from django.db import transaction
from sqlalchemy import orm

import tenure
from tests.connections.conftest import Home
from tests.connections.drivers import django_connection, engine_of
from tests.postgres.stores import Place


class Base(orm.DeclarativeBase):
    pass


class Effect(Base):
    __tablename__ = "effects"
    job: orm.Mapped[str] = orm.mapped_column(primary_key=True)


@pytest.fixture
def rung(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The queues for which a worker was woken."""
    rung: list[object] = []
    monkeypatch.setattr(jobs._backend._waiter, "wake", rung.append)  # type: ignore[attr-defined]
    return rung


def test_a_commit_wakes_and_a_rollback_does_not(home: Home, rung: list[object]) -> None:
    seen: list[list[object]] = []
    queues = [uuid4().hex, uuid4().hex, uuid4().hex]

    async def story() -> None:
        async with home.opened() as own:
            await own.enqueue(home.jobs, "send", queue=queues[0])
            await own.rollback()
        seen.append([*rung])
        async with home.opened() as own:
            await own.enqueue(home.jobs, "send", queue=queues[1])
            await own.enqueue(home.jobs, "send", queue=queues[2])
            seen.append([*rung])
            await own.commit()
            seen.append([*rung])

    home.kind.run(story())

    assert seen == [[], [], [{queues[1]}, {queues[2]}] if home.kind.tells_of_commits else []]


def test_a_session_that_goes_on_wakes_only_for_what_it_commits(
    place: Place, jobs: tenure.Jobs, rung: list[object]
) -> None:
    with engine_of("psycopg", place.server) as engine, orm.Session(engine) as session:
        jobs.enqueue("send", queue="undone", connection=session)
        session.rollback()
        session.commit()
        assert rung == []

        jobs.enqueue("send", queue="done", connection=session)
        session.commit()
        session.commit()

    assert rung == [{"done"}]


def test_a_savepoint_is_no_commit(place: Place, jobs: tenure.Jobs, rung: list[object]) -> None:
    with engine_of("psycopg", place.server) as engine, orm.Session(engine) as session:
        with session.begin_nested():
            jobs.enqueue("send", queue="inner", connection=session)
        with pytest.raises(ZeroDivisionError), session.begin_nested():
            raise ZeroDivisionError
        assert rung == []
        session.commit()
        assert rung == [{"inner"}]

    connection = django_connection(place.server)
    with transaction.atomic(using=connection.alias):
        with transaction.atomic(using=connection.alias):
            jobs.enqueue("send", queue="django", connection=connection)
        assert rung == [{"inner"}]
    connection.close()
    assert rung == [{"inner"}, {"django"}]


def test_where_django_is_told_to_leave_commits_alone_a_job_is_stored_all_the_same(
    place: Place, jobs: tenure.Jobs, rung: list[object]
) -> None:
    id = uuid4().hex
    connection = django_connection(place.server)
    connection.set_autocommit(False)

    jobs.enqueue("send", id=id, connection=connection)
    connection.commit()

    assert jobs.get(id) is not None
    assert rung == []
    connection.set_autocommit(True)
    connection.close()


def test_what_a_session_has_not_written_yet_is_written_first(place: Place, jobs: tenure.Jobs) -> None:
    """The session is flushed before the job is written, unless autoflush is off."""
    with engine_of("psycopg", place.server) as engine, orm.Session(engine) as session:
        session.connection(execution_options={"schema_translate_map": {None: place.schema}})
        session.add(Effect(job="flushed"))
        with session.no_autoflush:
            jobs.enqueue("send", connection=session)
            assert session.new
        jobs.enqueue("send", connection=session)
        assert not session.new
        session.rollback()
