"""A worker in psql and sh, beside Python workers."""

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tenure.backends.postgres import PostgreSQL
from tenure.client import settling
from tenure.core.operations import Query
from tenure.testing.conformance.building import build_completion, build_record, job_of, take
from tenure.testing.conformance.racing import run_concurrently
from tests.postgres.functions import functions_of
from tests.postgres.logins import LoggedIn
from tests.postgres.stores import Place
from tests.processes.stage import PATIENCE
from tests.servers import cluster

SCRIPT = Path(__file__).parents[2] / "examples" / "worker.sh"
JOBS = 60

NOTE_IT = """
read -r payload
printf '%s\\n' "$TENURE_ID $TENURE_FENCE $payload" >> "$DONE"
"""
"""The command of a job: append a line to a file. A short line is appended atomically."""

HANG = """
echo "$TENURE_ID $TENURE_FENCE $TENURE_TOKEN" > "$TOLD"
read -r _ < "$NEVER"
"""
"""Print the claim, and never exit."""

FAIL = "exit 3"


class Shell:
    """Workers in sh, with the rights of `tenure_worker` only."""

    def __init__(self, place: Place, folder: Path) -> None:
        programs = cluster.programs_of(cluster.names()[-1])
        self._environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "DATABASE_URL": place.server,
            "SCHEMA": place.schema,
            "DRAIN": "1",
            "DONE": str(folder / "done"),
            "TOLD": str(folder / "told"),
            "NEVER": str(folder / "never"),
        }

    def set(self, name: str, value: str) -> None:
        self._environment[name] = value

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [SCRIPT, *command],
            env=self._environment,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, command: str) -> None:
        """Work until no job is left, and check that no error is printed."""
        process = self.start("sh", "-c", command)
        _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (0, b"")


@pytest.fixture
def shell(logged_in: LoggedIn, tmp_path: Path) -> Shell:
    os.mkfifo(tmp_path / "told")
    os.mkfifo(tmp_path / "never")
    return Shell(logged_in("worker"), tmp_path)


def work_in_python(place: Place, done: Path) -> None:
    """Work until no job is left."""
    store = place.open("&migrate=never")
    while taken := take(store, limit=2):
        with done.open("a") as lines:
            for each in taken:
                lines.write(f"{each.id} {each.job.fence} python\n")
                lines.flush()
        settling.settle(store, [build_completion(each) for each in taken])
    store.close()


def test_psql_and_python_share_a_queue_and_take_over_from_one_that_was_killed(
    place: Place,
    store: PostgreSQL,
    shell: Shell,
    logged_in: LoggedIn,
    tmp_path: Path,
) -> None:
    store.enqueue([build_record(id=f"job-{number}", payload={"number": number}) for number in range(JOBS)])
    victim = shell.start("sh", "-c", HANG)
    id, fence, token = (tmp_path / "told").read_text().split()
    os.killpg(victim.pid, signal.SIGKILL)
    victim.communicate()
    place.execute("update S.jobs set leased_until = now() where id = %s", id)
    python = logged_in("library")

    run_concurrently([lambda: shell.run(NOTE_IT), lambda: work_in_python(python, tmp_path / "done")] * 2)

    done = [line.split()[:2] for line in (tmp_path / "done").read_text().splitlines()]
    with functions_of(logged_in("worker")) as sql:
        late = sql.value("complete", id, int(fence), token)
    assert Counter(each for each, _ in done) == {f"job-{number}": 1 for number in range(JOBS)}
    assert int(dict(done)[id]) > int(fence)
    assert late is False
    assert {job.state for job in store.find(Query(limit=1000)).jobs} == {"completed"}
    assert job_of(store, id).crashes == 1


def test_a_payload_reaches_the_command_whatever_is_in_it(store: PostgreSQL, shell: Shell, tmp_path: Path) -> None:
    store.enqueue([build_record(id="it's $HOME; \\\" 1", payload={"text": "a\tb\n'; drop table \\x ä $(id)"})])

    shell.run(NOTE_IT)

    assert (tmp_path / "done").read_text() == (
        'it\'s $HOME; \\" 1 1 {"text": "a\\tb\\n\'; drop table \\\\x ä $(id)"}\n'
    )


def test_a_worker_without_a_command_takes_no_job(store: PostgreSQL, shell: Shell) -> None:
    store.enqueue([build_record(id="job")])

    process = shell.start()
    _, said = process.communicate(timeout=PATIENCE)

    assert process.returncode != 0
    assert b"pass the command to run" in said
    assert job_of(store, "job").state == "queued"


def test_a_command_that_fails_is_tried_again_later(store: PostgreSQL, shell: Shell) -> None:
    store.enqueue([build_record(id="job", max_attempts=1)])

    shell.run(FAIL)

    job = job_of(store, "job")
    assert (job.state, job.errors) == ("failed", ["the command exited with 3"])


def test_an_ending_that_the_server_cannot_be_told_is_told_later(
    place: Place, store: PostgreSQL, logged_in: LoggedIn, tmp_path: Path
) -> None:
    worker = logged_in("worker")
    os.mkfifo(tmp_path / "told")
    os.mkfifo(tmp_path / "never")
    store.enqueue([build_record(id="job")])
    process = Shell(worker, tmp_path).start("sh", "-c", HANG)
    (tmp_path / "told").read_text()
    user = conninfo_to_dict(worker.server)["user"]

    place.execute(f"alter role {user} nologin")
    (tmp_path / "never").write_text("after all\n")
    assert process.stderr is not None
    assert b"not permitted to log in" in process.stderr.readline()
    place.execute(f"alter role {user} login")
    process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert (job_of(store, "job").state, job_of(store, "job").attempts) == ("completed", 1)


@pytest.mark.parametrize("lease", ["0", "1.5", "2", "long"])
def test_a_lease_that_could_not_be_kept_is_refused(shell: Shell, store: PostgreSQL, lease: str) -> None:
    store.enqueue([build_record(id="job")])
    shell.set("LEASE", lease)

    process = shell.start("true")
    _, said = process.communicate(timeout=PATIENCE)

    assert process.returncode == 2
    assert b"LEASE must be a whole number" in said
    assert job_of(store, "job").state == "queued"
