"""The final content of the tables, as facts that tests compare with the expected ones."""

from typing import Any

from tests.postgres.stores import Place

STATES = """
    select state, count(*)
    from (select state from S.jobs union all select state from S.finished) job
    group by state
"""
HAPPENED = "select event, sum(number)::bigint from S.counts group by event"
CRASHES = "select (select coalesce(sum(crashes), 0) from S.jobs) + (select coalesce(sum(crashes), 0) from S.finished)"
EXPIRED = "select count(*) from S.history where outcome = 'expired'"

FAULTS = {
    "jobs in both tables": "select count(*) from S.jobs join S.finished using (id)",
    "numbers of two jobs": """
        select count(*) - count(distinct sequence)
        from (select sequence from S.jobs union all select sequence from S.finished) job
    """,
    "leases that are half cleared": """
        select count(*)
        from S.jobs
        where num_nulls(leased_until, token, worker) <> case when state = 'running' then 0 else 3 end
    """,
    "keys of two live jobs": """
        select count(*) - count(distinct (queue, key))
        from S.jobs
        where key is not null and state <> 'failed'
    """,
    "endings of no job": """
        select count(*)
        from S.history
        where job not in (select sequence from S.jobs union all select sequence from S.finished)
    """,
    "jobs where no claim looks": """
        select count(*)
        from S.jobs
        where (queue, type) not in (select queue, type from S.lanes)
    """,
}

EFFECTS = """
    select count(*), sum(writes)::bigint, count(*) filter (where e.fence is distinct from f.fence)
    from S.effects e
    left join S.finished f on f.id = e.job
"""


def verdict(place: Place) -> dict[str, Any]:
    """Return the facts."""
    return {
        "states": dict(place.execute(STATES)),
        "happened": dict(place.execute(HAPPENED)),
        "crashes": int(number(place, CRASHES)),
        "endings that expired": number(place, EXPIRED),
        "faults": {name: found for name, text in FAULTS.items() if (found := number(place, text))},
    }


def effects(place: Place) -> dict[str, Any]:
    """Return the facts about the effects written by the scenes."""
    ((jobs, writes, stale),) = place.execute(EFFECTS)
    return {"effects": jobs, "writes": writes, "of another claim than the one that completed": stale}


def number(place: Place, text: str) -> Any:
    ((found,),) = place.execute(text)
    return found
