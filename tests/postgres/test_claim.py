"""Claims while other transactions hold the first jobs of a lane."""

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres import claim as claiming
from tenure.testing.conformance.building import build_record, ids_of, request
from tests.postgres.somebody import doing
from tests.postgres.stores import Place


def test_a_job_that_comes_while_a_claim_looks_further_is_answered_in_its_turn(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record(id=f"job-{n:02}") for n in range(40)])
    asked = request(limit=3)
    with doing(place, "select 1 from S.jobs where id between 'job-01' and 'job-29' for update"):
        *_, first = store.database.execute(claiming.queries(store.database, asked))
        store.enqueue([build_record(id="urgent", priority=1)])

        claimed = claiming.read_outcome(store.database, asked, first)

    assert ids_of(claimed.jobs) == ["urgent", "job-00", "job-30"]


def test_what_lies_behind_the_first_of_a_line_is_not_overtaken_by_another_line(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record("work", id=f"job-{n:02}") for n in range(40)])
    store.enqueue([build_record("other", id=f"later-{n}") for n in range(5)])

    with doing(place, "select 1 from S.jobs where id between 'job-00' and 'job-29' for update"):
        claimed = store.claim(request(limit=3))

    assert ids_of(claimed.jobs) == ["job-30", "job-31", "job-32"]
