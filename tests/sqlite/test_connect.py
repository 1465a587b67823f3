"""Which files can hold a store, and how they are opened."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.playing import ROOT

import tenure
from tenure.backends.sqlite import SQLite, connect, file_checks, library, migrations
from tenure.backends.urls import open_backend
from tenure.core.job import NewJob
from tenure.core.operations import Query
from tenure.testing.conformance.building import build_completion, ids_of, settle, take_one

AFFECTED = [(3, 7, 0), (3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 0), (3, 51, 2)]
FIXED = [(3, 6, 23), (3, 44, 6), (3, 44, 9), (3, 50, 7), (3, 51, 3), (3, 52, 0), (4, 0, 0)]

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:40 / /srv/share rw shared:2 - nfs4 server:/export rw,vers=4.2
31 22 0:41 / /srv/share/local rw - tmpfs tmpfs rw
32 22 0:42 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:43 / /twice rw - ext4 /dev/b rw
34 22 0:44 / /twice rw - fuse.sshfs host: rw
35 22 0:45 / /c rw - 9p drvfs rw
"""


def put(store: SQLite, id: str = "first") -> None:
    store.enqueue([NewJob("work").record(id)])


@pytest.fixture(autouse=True)
def forget_what_was_warned_of() -> None:
    connect._warned_files.clear()


@pytest.mark.parametrize("version", AFFECTED)
def test_a_version_with_the_wal_reset_bug_is_known(version: library.Version) -> None:
    assert library.has_wal_reset_bug(version)


@pytest.mark.parametrize("version", FIXED)
def test_a_version_without_the_wal_reset_bug_is_known(version: library.Version) -> None:
    assert not library.has_wal_reset_bug(version)


def test_a_library_that_is_too_old_is_refused_by_its_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))

    with pytest.raises(tenure.ConfigurationError, match=r"SQLite 3\.34\.1, but tenure needs 3\.35\.0 or newer"):
        put(SQLite(path))

    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/var/lib/tenure.db", "ext4"),
        ("/srv/share/tenure.db", "nfs4"),
        ("/srv/shared/tenure.db", "ext4"),
        ("/srv/share/local/tenure.db", "tmpfs"),
        ("/mnt/with space/tenure.db", "cifs"),
        ("/twice/tenure.db", "fuse.sshfs"),
        ("/c/tenure.db", "9p"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_innermost_mount(file: str, kind: str) -> None:
    assert file_checks.mount_type(file, MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs"])
def test_a_network_file_system_is_refused_by_its_kind(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = path.with_name("mountinfo")
    mounts.write_text(f"22 1 0:40 / / rw - {kind} server:/ rw\n")
    monkeypatch.setattr(file_checks, "MOUNTINFO", mounts)

    with pytest.raises(tenure.ConfigurationError, match=rf"network file system \({kind}\)"):
        put(SQLite(path))

    assert not path.exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuse.mergerfs"])
def test_a_local_file_system_is_used(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = path.with_name("mountinfo")
    mounts.write_text(f"22 1 0:40 / / rw - {kind} none rw\n")
    monkeypatch.setattr(file_checks, "MOUNTINFO", mounts)

    put(SQLite(path))

    assert path.exists()


def test_a_file_that_tenure_makes_is_its_own_in_wal_mode(path: Path) -> None:
    put(SQLite(path))

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)
        assert db.execute("pragma application_id").fetchone() == (0x74656E75,)


@pytest.mark.parametrize(("option", "number"), [("", 2), ("?synchronous=full", 2), ("?synchronous=normal", 1)])
def test_every_commit_reaches_the_disk_unless_told_otherwise(path: Path, option: str, number: int) -> None:
    store = open_backend(f"sqlite:///{path}{option}")
    assert isinstance(store, SQLite)
    put(store)

    assert store.database._writer is not None
    assert store.database._writer.db.execute("pragma synchronous").fetchone() == (number,)
    store.close()


def test_a_store_that_is_made_by_hand_is_durable_too(path: Path) -> None:
    store = SQLite(path)
    put(store)

    assert store.database._writer is not None
    assert store.database._writer.db.execute("pragma synchronous").fetchone() == (2,)
    store.close()


def test_a_file_of_the_users_keeps_its_journal_mode_and_its_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table orders (id integer primary key)")
        db.execute("pragma user_version = 7")
        db.commit()
    store = SQLite(path)
    put(store)
    taken = take_one(store)
    assert settle(store, build_completion(taken))
    store.close()

    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("select name from sqlite_master")]
        assert db.execute("pragma journal_mode").fetchone() == ("delete",)
        assert db.execute("pragma application_id").fetchone() == (0,)
        assert db.execute("pragma user_version").fetchone() == (7,)
        assert [name for name in names if not name.startswith(("tenure_", "sqlite_"))] == ["orders"]


def test_of_a_file_of_the_users_in_wal_mode_the_bug_is_told_once(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _: True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode = wal")
        db.execute("create table orders (id integer primary key)")
        db.commit()

    for _ in range(2):
        store = SQLite(path)
        put(store)
        store.close()

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "tenure did not create the file" in record.message
    assert "WAL-reset bug" in record.message
    assert "3.51.3, 3.50.7 and 3.44.6" in record.message


@pytest.mark.parametrize(("journal", "is_affected"), [("delete", True), ("wal", False)])
def test_where_the_bug_cannot_happen_nothing_is_told(
    path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    journal: str,
    is_affected: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _: is_affected)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"pragma journal_mode = {journal}")
        db.execute("create table orders (id integer primary key)")
        db.commit()

    put(SQLite(path))
    put(SQLite(path.with_name("ours.db")))

    assert caplog.records == []


def test_a_schema_that_is_newer_than_the_library_is_refused_and_left_as_it_is(path: Path) -> None:
    put(SQLite(path))
    newer = len(migrations.SCRIPTS) + 1
    with closing(sqlite3.connect(path)) as db:
        db.execute("insert into tenure_schema values (?)", (newer,))
        db.commit()

    with pytest.raises(tenure.SchemaOutdated, match=f"schema {newer}, but this tenure supports only up to {newer - 1}"):
        put(SQLite(path), "second")


def test_an_older_schema_is_brought_up_to_date_when_it_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(SQLite(path))
    newer = len(migrations.SCRIPTS) + 1
    script = path.with_name("next.sql")
    script.write_text(
        "create table tenure_more (text text); -- with a ; in it\ninsert into tenure_more values (';');\n"
    )
    monkeypatch.setattr(migrations, "SCRIPTS", [*migrations.SCRIPTS, script])

    store = SQLite(path)
    put(store, "second")

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select max(version) from tenure_schema").fetchone() == (newer,)
        assert db.execute("select text from tenure_more").fetchall() == [(";",)]


@pytest.mark.parametrize("version", range(1, len(migrations.SCRIPTS)))
def test_a_file_of_each_older_schema_becomes_as_a_new_one_and_keeps_its_jobs(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with monkeypatch.context() as older:
        older.setattr(migrations, "SCRIPTS", migrations.SCRIPTS[:version])
        old = SQLite(path)
        put(old)
        old.close()
    before = schema_of(path)
    new = SQLite(path.with_name("new.db"))
    put(new)

    store = SQLite(path)
    begun_at = store.schedule("hourly", []).last_at

    assert ids_of(store.find(Query()).jobs) == ["first"]
    assert store.schedule("hourly", []).last_at == begun_at
    assert before != schema_of(path) == schema_of(new.database.path)


def schema_of(path: Path) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("select type, name, sql from sqlite_master order by type, name").fetchall()


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(SQLite(path))
    present = len(migrations.SCRIPTS)
    script = path.with_name("next.sql")
    script.write_text("create table tenure_more (text text);\ninsert into nowhere values (1);\n")
    monkeypatch.setattr(migrations, "SCRIPTS", [*migrations.SCRIPTS, script])

    with pytest.raises(tenure.StoreUnavailable, match="nowhere"):
        put(SQLite(path), "second")

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select max(version) from tenure_schema").fetchone() == (present,)
        assert db.execute("select name from sqlite_master where name = 'tenure_more'").fetchall() == []


def test_a_file_can_be_read_with_nothing_but_sqlite(path: Path) -> None:
    store = SQLite(path)
    store.enqueue([NewJob("send", {"to": "ada"}, queue="mail").record("a"), NewJob("send", delay=60).record("b")])
    settle(store, build_completion(take_one(store), {"ok": True}))

    with closing(sqlite3.connect(path)) as db:
        shown = db.execute("select id, queue, type, state, payload, result from tenure_overview order by id").fetchall()
        lanes = db.execute("select queue, type, scheduled, completed from tenure_lanes order by queue").fetchall()

    assert shown == [
        ("a", "mail", "send", "completed", '{"to":"ada"}', '{"ok":true}'),
        ("b", "default", "send", "scheduled", "{}", None),
    ]
    assert lanes == [("default", "send", 1, 0), ("mail", "send", 0, 1)]


def test_without_a_url_the_store_is_tenure_db_in_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TENURE_URL", raising=False)
    with tenure.Jobs() as jobs:
        jobs.enqueue("work", id="a")
        monkeypatch.chdir("/")

        assert jobs.get("a") is not None

    assert (folder / "tenure.db").exists()


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///a.db", "a.db"),
        ("sqlite:///folder/with%20space.db", "folder/with space.db"),
        ("sqlite:////{folder}/b.db", "b.db"),
        ("sqlite:///c.db?timeout=5&synchronous=normal", "c.db"),
    ],
)
def test_a_url_names_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, file: str) -> None:
    monkeypatch.chdir(folder)
    (folder / "folder").mkdir()

    with tenure.Jobs(url.format(folder=str(folder).removeprefix("/"))) as jobs:
        jobs.enqueue("work")

    assert (folder / file).exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "does not name a file; use 'sqlite:///tenure.db'"),
        ("sqlite:///", "does not name a file"),
        ("sqlite://tenure.db", "does not name a file"),
        ("sqlite:///folder/", "does not name a file"),
        ("sqlite:///:memory:", "use 'memory://' for a store in memory"),
        ("sqlite:///a.db?synchronous=off", "synchronous must be 'full' or 'normal', not 'off'"),
        ("sqlite:///a.db?timeout=soon", "timeout must be a number of seconds, not 'soon'"),
        ("sqlite:///a.db?timeout=99999", "timeout must be 0 to 3,600 seconds"),
        ("sqlite:///a.db?sync=full", "has no option 'sync'"),
        ("sqlite3:///a.db", "did you mean 'sqlite://'"),
        ("tenure.db", "begin it with memory://, sqlite://"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_nothing_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, message: str
) -> None:
    monkeypatch.chdir(folder)

    with pytest.raises(tenure.ConfigurationError, match=message.replace("?", r"\?")):
        tenure.Jobs(url).enqueue("work")

    assert list(folder.iterdir()) == []


def test_the_docs_say_what_every_table_and_index_is_for() -> None:
    docs = (ROOT / "docs/sqlite.md").read_text()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrations.migrate(db)
        names = [name for (name,) in db.execute("select name from sqlite_master where name like 'tenure%'")]

    assert [name for name in names if f"`{name}`" not in docs] == []


def test_two_handles_of_one_process_see_one_store(path: Path) -> None:
    first, second = SQLite(path), SQLite(path)
    put(first)

    assert ids_of(second.find(Query()).jobs) == ["first"]
