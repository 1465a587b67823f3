"""The findings of `tenure doctor` for a table on PostgreSQL, with their remedies."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tenure.backends.tables.postgres import PostgresTable
from tenure.backends.tables.protocol import Finding, Severity
from tenure.core.operations import ClaimRequest
from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.servers.servers import Servers, shared_names
from tests.tables.postgres_tables import as_role, new_schema, opened

ORDERS = "create table S.orders (id bigint primary key, source text, state text not null default 'queued')"


@pytest.fixture
def place(servers: Servers) -> Iterator[Place]:
    """A schema on the newest server; the first test runs the catalogue queries on all servers."""
    with new_schema(servers.shared(shared_names()[-1]).url) as place:
        yield place


@pytest.fixture
def made(place: Place) -> Place:
    """A migrated table."""
    place.execute(ORDERS)
    with opened(place) as table:
        table.migrate()
    return place


def found(place: Place, about: str, **options: Any) -> list[Finding]:
    """Return the findings with this `about`."""
    with opened(place, **options) as table:
        return [each for each in table.check() if each.about == about]


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_nothing_is_wrong_with_a_table_that_was_migrated_on_any_server(postgres: Server) -> None:
    with new_schema(postgres.url) as place, opened_anew(place) as table:
        table.migrate(functions=True)

        assert table.check() == []


@contextmanager
def opened_anew(place: Place) -> Iterator[PostgresTable]:
    """Yield a table with rows in several states, and an output table."""
    place.execute(ORDERS)
    place.execute("create table S.invoices (order_id bigint)")
    place.execute("insert into S.orders (id, state) values (1, 'queued'), (2, 'completed'), (3, 'failed')")
    with opened(place, output=f"{place.schema}.invoices.order_id", where="source = 'web'") as table:
        yield table


def test_nothing_is_wrong_with_a_companion_that_was_made(place: Place) -> None:
    place.execute(ORDERS)

    with opened(place, where="source is not null", sidecar=True) as table:
        table.migrate()

        assert table.check() == []


def test_columns_and_indexes_that_are_missing_are_told_with_what_adds_them(place: Place) -> None:
    place.execute(ORDERS)

    with opened(place) as table:
        findings = table.check()

    columns = [each for each in findings if each.about == "columns"]
    index = only([each for each in findings if each.about == "index claim"])
    assert only(columns).severity is Severity.ERROR
    assert "'tenure_fence', 'tenure_token'" in only(columns).text
    assert 'add column if not exists "tenure_fence"' in (only(columns).remedy or "")
    assert (index.severity, "create index concurrently" in (index.remedy or "")) == (Severity.WARNING, True)
    assert [each.severity for each in findings] == sorted(
        (each.severity for each in findings), key=list(Severity).index
    )


def test_an_index_that_is_broken_is_told(made: Place) -> None:
    made.execute(
        "update pg_index set indisvalid = false from pg_class known where known.oid = indexrelid "
        f"and known.relname like 'tenure_orders_leases%%' and indrelid = '{made.schema}.orders'::regclass"
    )

    assert "is invalid" in only(found(made, "index leases")).text


def test_a_view_is_no_table(made: Place) -> None:
    made.execute("create view S.open_orders as select id, state from S.orders")

    finding = only(found(made, "table", name="open_orders"))

    assert (finding.severity, "a view" in finding.text) == (Severity.ERROR, True)


def test_a_key_that_is_not_unique_or_may_be_null_is_told(place: Place) -> None:
    place.execute("create table S.orders (id bigint, number bigint unique)")

    assert "no unique index" in only(found(place, "key")).text
    assert "is nullable" in only(found(place, "column number", id="number")).text


def test_what_a_role_may_not_do_is_told_with_the_grant(made: Place) -> None:
    with as_role(made, "grant usage on schema S to R; grant select (id, source) on S.orders to R") as url:
        told = found(made, "rights", at=url)

    remedies = "\n".join(each.remedy or "" for each in told)
    assert [each.severity for each in told] == [Severity.ERROR, Severity.ERROR]
    assert "grant select on" in remedies
    assert 'grant update ("state", ' in remedies


def test_a_role_with_just_the_rights_that_it_needs_is_told_nothing(made: Place) -> None:
    names = [f'"{part}"' for part in ("state", *(each for each in columns_of(made) if each.startswith("tenure_")))]

    rights = f"grant usage on schema S to R; grant select, update ({', '.join(names)}) on S.orders to R"
    with as_role(made, rights) as url:
        assert found(made, "rights", at=url) == []


def columns_of(place: Place) -> list[str]:
    rows = place.execute(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0", f"{place.schema}.orders"
    )
    return [name for (name,) in rows]


def test_who_may_not_lock_a_row_cannot_take_it_with_a_companion(place: Place) -> None:
    place.execute(ORDERS)
    options: Any = {"where": "true", "sidecar": True}
    with opened(place, **options) as table:
        table.migrate()

    rights = "grant usage on schema S to R; grant select on S.orders to R; grant select, update on S.tenure_orders to R"
    with as_role(place, rights) as url:
        told = [each.text for each in found(place, "rights", at=url, **options)]

    assert any("cannot lock a row" in each for each in told)
    assert any("may not insert" in each for each in told)


def test_row_level_security_that_holds_for_this_role_is_told(made: Place) -> None:
    made.execute("alter table S.orders enable row level security")
    made.execute("create policy mine on S.orders using (source = current_user)")
    rights = "grant usage on schema S to R; grant select, update on S.orders to R"

    with as_role(made, rights) as url:
        told = only(found(made, "row-level security", at=url))

    assert "mine" in told.text
    assert found(made, "row-level security") == []


@pytest.mark.parametrize(("moment", "gravity"), [("before", Severity.WARNING), ("after", Severity.NOTE)])
def test_a_trigger_that_fires_at_every_claim_is_told(made: Place, moment: str, gravity: Severity) -> None:
    made.execute("create function S.touch() returns trigger language plpgsql as 'begin return new; end'")
    made.execute(f"create trigger touch {moment} update on S.orders for each row execute function S.touch()")
    made.execute("create trigger other after update of source on S.orders for each row execute function S.touch()")

    told = only(found(made, "trigger touch"))

    assert told.severity is gravity
    assert found(made, "trigger other") == []


def test_a_column_that_is_emptied_at_times_must_not_be_not_null(made: Place) -> None:
    made.execute("alter table S.orders alter column tenure_worker set not null")

    told = only(found(made, "column tenure_worker"))
    made.execute(told.remedy or "")

    assert (told.severity, "is not null" in told.text) == (Severity.ERROR, True)
    assert found(made, "column tenure_worker") == []


def test_what_the_server_refuses_is_logged_without_the_values_of_the_row(
    made: Place, caplog: pytest.LogCaptureFixture
) -> None:
    made.execute("insert into S.orders (id, source) values (1, 'secret')")
    made.execute("alter table S.orders add constraint mine check (state <> 'running' or source <> 'secret')")

    with opened(made) as table:
        claimed = table.claim(ClaimRequest(limit=1, lease=60, worker="worker", token="token"))

    assert claimed.jobs == []
    assert "mine" in caplog.text
    assert "secret" not in caplog.text


def test_a_constraint_that_refuses_a_word_is_told_before_a_row_is_stuck(made: Place) -> None:
    made.execute("alter table S.orders add constraint known check (state in ('queued', 'running', 'completed'))")

    told = only(found(made, "constraint known"))
    made.execute(told.remedy or "")

    assert "'cancelled'" in told.text
    assert found(made, "constraint known") == []


def test_a_domain_that_refuses_a_word_is_told(place: Place) -> None:
    place.execute("create domain S.status as text check (value <> 'cancelled')")
    place.execute("create table S.orders (id bigint primary key, state S.status)")

    told = found(place, "column state")

    assert any("rejects 'cancelled'" in each.text for each in told)


def test_a_column_that_the_server_makes_cannot_play_a_role(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key, tries bigint generated always as (id * 2) stored)")

    assert only(found(place, "column tries", columns={"attempts": "tries"})).severity is Severity.ERROR


def test_a_moment_without_a_zone_is_told(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key, lease timestamp)")

    assert "without a time zone" in only(found(place, "column lease", columns={"leased_until": "lease"})).text


def test_words_that_mean_no_state_are_counted(made: Place) -> None:
    made.execute("alter table S.orders alter state drop not null")
    made.execute("insert into S.orders (id, state) values (1, 'wating'), (2, 'wating'), (3, null), (4, 'queued')")

    first, second = found(made, "states")

    assert "2 of 4 rows checked have 'wating'" in first.text
    assert "null state" in second.text


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("'queued', null, 'someone'", "1 row (7) is queued with a lease or a token"),
        ("'failed', now(), null", "1 row (7) is finished with a lease"),
        ("'running', null, null", "1 row (7) is running without a lease"),
    ],
)
def test_rows_that_are_half_cleared_or_stuck_are_told(made: Place, values: str, told: str) -> None:
    made.execute(
        "insert into S.orders (id, state, tenure_leased_until, tenure_token) "
        f"values (7, {values}), (8, 'queued', null, null)"
    )

    assert only(found(made, "rows")).text.startswith(told)


def test_a_remedy_for_half_cleared_rows_can_be_run(made: Place) -> None:
    made.execute("insert into S.orders (id, state, tenure_token) values (7, 'queued', 'someone')")

    made.execute(only(found(made, "rows")).remedy or "")

    assert found(made, "rows") == []


def test_a_companion_tells_orphans_and_what_is_completed_and_still_chosen(place: Place) -> None:
    place.execute(ORDERS)
    options: Any = {"where": "source = :source", "params": {"source": "web"}, "sidecar": True}
    with opened(place, **options) as table:
        place.execute(table.outstanding()[0])
        place.execute("insert into S.orders (id, source) values (1, 'web'), (2, 'shop')")
        place.execute(
            "insert into S.tenure_orders (id, state) values (1, 'completed'), (2, 'completed'), (3, 'queued')"
        )
        table.migrate()

    told = [each.text for each in found(place, "rows", **options)]

    assert any(each.startswith("1 row (1) is completed but still matched") for each in told)
    assert any(each.startswith("1 row (3) is in tenure_orders, but deleted") for each in told)


def test_functions_of_a_table_that_was_changed_since_are_told(made: Place) -> None:
    with opened(made) as table:
        table.migrate(functions=True)
    before = found(made, "functions")

    made.execute("alter table S.orders add column note text")

    assert before == []
    assert only(found(made, "functions")).severity is Severity.WARNING


def test_a_claim_that_would_walk_through_a_large_table_is_told_with_an_index(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key, source text)")
    place.execute("insert into S.orders select n, 'web' from generate_series(1, 10001) n; analyze S.orders")
    options: Any = {"where": "source = :source", "params": {"source": "shop"}, "sidecar": True}
    with opened(place, **options) as table:
        table.migrate()

    told = only(found(place, "plan", **options))
    place.execute(told.remedy or "")

    assert '("source", "id")' in (told.remedy or "")
    assert found(place, "plan", **options) == []


def test_a_claim_of_a_large_table_that_was_migrated_goes_by_its_index(made: Place) -> None:
    made.execute("insert into S.orders select n, 'web' from generate_series(1, 10001) n; analyze S.orders")

    assert found(made, "plan", where="source like 'web%'") == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": "oders"}, "did you mean 'orders'?"),
        ({"id": "ids"}, "did you mean 'id'?"),
        ({"order_by": "sauce"}, "did you mean 'source'?"),
        ({"output": "nowhere.order_id"}, "table 'nowhere' does not exist"),
    ],
)
def test_what_is_named_and_not_there_is_told(made: Place, options: Any, told: str) -> None:
    finding = only(found(made, "table", **options))

    assert (finding.severity, told in finding.text) == (Severity.ERROR, True)


@pytest.mark.parametrize("option", ["where", "done_if"])
def test_a_condition_that_the_server_does_not_understand_is_told(made: Place, option: str) -> None:
    told = only(found(made, option, **{option: "sauce = 'web'"}))

    assert (told.severity, "sauce" in told.text) == (Severity.ERROR, True)


def test_an_output_that_is_there_twice_is_told_with_the_query_that_finds_it(made: Place) -> None:
    made.execute("create table S.invoices (order_id bigint); insert into S.invoices values (7), (7), (8)")

    told = only(found(made, "output", output=f"{made.schema}.invoices.order_id"))

    query = (told.remedy or "").partition("\n")[2]
    assert made.execute(query) == [(7, 2)]


def test_tables_that_inherit_are_told(made: Place) -> None:
    made.execute("create table S.heirs () inherits (S.orders)")

    finding = only(found(made, "table"))

    assert finding.severity is Severity.WARNING
    assert "inherit" in finding.text


def test_a_state_of_a_domain_over_an_enum_is_told_with_what_mends_it(place: Place) -> None:
    place.execute("create type S.kind as enum ('queued', 'running', 'completed', 'failed', 'cancelled')")
    place.execute("create domain S.domain as S.kind")
    place.execute("create table S.orders (id bigint primary key, state S.domain not null)")

    finding = only(found(place, "column state"))
    place.execute(str(finding.remedy))

    assert finding.severity is Severity.ERROR
    assert found(place, "column state") == []
