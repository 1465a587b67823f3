"""Every SQL block of the guide to the functions does what the guide says."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg import errors

from tenure.backends.postgres import PostgreSQL, functions
from tenure.core.operations import Query
from tests.postgres.functions import functions_of
from tests.postgres.logins import LoggedIn
from tests.postgres.stores import Place
from tests.servers import cluster

GUIDE = Path(__file__).parents[2] / "docs" / "functions.md"
ROLES = ("web_anon", "web_user", "mailer", "shop")


class Guide:
    """The SQL of the guide, run in a separate database."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._suffix = uuid4().hex
        self.names = {name: f"{name}_{self._suffix}" for name in (*ROLES, "api", "orders", "charges")}

    def run(self) -> None:
        """Run all SQL blocks of the guide with psql."""
        blocks = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        text = re.sub(r"\btenure(_\w+)?\b", lambda found: f"{self._place.schema}{found[1] or ''}", "\n".join(blocks))
        for name, own in self.names.items():
            text = re.sub(rf"(?<!['-])\b{name}\b(?!['-])", own, text)
        psql = cluster.programs_of(cluster.names()[-1]) / "psql"
        options = ("--no-psqlrc", "--quiet", "--output=/dev/null", "--set=ON_ERROR_STOP=1")
        said = subprocess.run(
            [psql, *options, self._place.server], input=text.encode(), capture_output=True, check=False
        )
        assert (said.returncode, said.stderr) == (0, b"")

    def clear_away(self) -> None:
        for table in ("orders", "charges"):
            self._place.execute(f"drop table if exists {self.names[table]}")
        self._place.execute(f"drop schema if exists {self.names['api']} cascade")
        for role in ROLES:
            self._place.execute(f"drop role if exists {self.names[role]}")


@pytest.fixture
def guide(place: Place, logged_in: LoggedIn) -> Iterator[Guide]:
    logged_in("producer")
    guide = Guide(place)
    yield guide
    guide.clear_away()


def test_every_block_of_the_guide_runs_and_leaves_what_it_says(place: Place, store: PostgreSQL, guide: Guide) -> None:
    guide.run()

    jobs = {job.type: job for job in store.find(Query(types=("add", "charge", "invoice"))).jobs}
    assert (jobs["add"].state, jobs["add"].result) == ("completed", 5)
    assert (jobs["charge"].state, jobs["invoice"].key) == ("completed", "order-7")
    assert place.execute(f"select fence from {guide.names['charges']}") == [(1,)]
    assert {job.payload["to"] for job in store.find(Query(types=("send",))).jobs} == {"ada", "bob", "eve"}


def test_the_wrapper_of_the_guide_is_for_whom_it_is_meant(place: Place, store: PostgreSQL, guide: Guide) -> None:
    guide.run()
    call = f"select {guide.names['api']}.send_report('2026-01-01')"

    place.execute(f"set role {guide.names['web_user']}; {call}; {call}")

    with pytest.raises(errors.InsufficientPrivilege, match="send_report"):
        place.execute(f"set role {guide.names['web_anon']}; {call}")
    for role in ("web_anon", "web_user"):
        with pytest.raises(errors.InsufficientPrivilege, match="schema"):
            place.execute(f"set role {guide.names[role]}; select S.enqueue('t')")
    (job,) = store.find(Query(types=("report",))).jobs
    assert (job.payload, job.queue) == ({"month": "2026-01-01"}, "reports")


def test_the_guide_names_every_function_with_its_parameters_and_columns(place: Place, store: PostgreSQL) -> None:
    store.migrate()
    told = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", GUIDE.read_text(), re.MULTILINE))

    rows = place.execute(
        """
        select proname, coalesce(array_to_string(proargnames[:pronargs], ', '), '') from pg_proc
        where pronamespace = %s::regnamespace and proname = any (%s)
        """,
        place.schema,
        functions.public_names(),
    )

    assert told == dict(rows)


def test_the_guide_names_the_columns_of_a_claim(place: Place, store: PostgreSQL) -> None:
    store.migrate()
    (told,) = re.findall(r"^\| `claim\(.*?\)` \| (.*?) of each job", GUIDE.read_text(), re.MULTILINE)

    with functions_of(place) as sql:
        sql.rows("enqueue", "t")
        (claim,) = sql.rows("claim", "w")

    assert re.findall(r"`(\w+)`", told) == list(claim)
