"""Insert many jobs directly into the tables: enqueuing a million takes minutes."""

from dataclasses import dataclass

from tests.postgres.stores import Place

LANES = "insert into S.lanes (queue, type) select 'default', type from unnest(array['work', 'other']) type"

JOBS = """
insert into S.jobs (
  id, sequence, queue, type, priority, run_at, state, is_ready, max_attempts, max_crashes, payload, created_at, fence,
  token, worker, leased_until, started_at
)
select
  {kind} || '-' || n, nextval('S.job_sequence'), 'default', {type}, {priority}, {moment} + n * interval '1 microsecond',
  {state}, {is_ready}, 5, 3, '{{"n": 1}}', {moment}, {fence}, {token}, {worker}, {leased_until}, {started_at}
from generate_series(1, {number}) n
"""

FINISHED = """
insert into S.finished (
  id, sequence, queue, type, priority, run_at, state, attempts, crashes, max_attempts, max_crashes, endings, fence,
  worker, token, created_at, started_at, finished_at, payload, result
)
select
  'finished-' || n, nextval('S.job_sequence'), 'default', 'work', 0, now(), 'completed', 1, 0, 5, 3, 0, 1, 'somebody',
  'token-' || n, now(), now(), now() + n * interval '1 microsecond', '{{"n": 1}}', 'null'
from generate_series(1, {number}) n
"""

NEVER = "null::timestamptz"
NULLS = {"fence": "0", "token": "null", "worker": "null", "leased_until": NEVER, "started_at": NEVER}
HELD = {
    "fence": "1",
    "token": "'held-' || n / 100",
    "worker": "'worker-' || n % 100",
    "leased_until": "now() + interval '1 day'",
    "started_at": "now()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The number of jobs of each kind. Scheduled jobs sort first once due; all others have been due for longer."""

    queued: int
    scheduled: int = 0
    others: int = 0
    running: int = 0
    finished: int = 0

    def fill(self, place: Place) -> None:
        """Insert the jobs into the tables of an opened store, and update the planner statistics."""
        place.execute(LANES)
        for kind, number, columns in self._kinds():
            place.execute(JOBS.format(kind=f"'{kind}'", number=number, **columns))
        place.execute(FINISHED.format(number=self.finished))
        place.execute("vacuum analyze S.jobs")
        place.execute("vacuum analyze S.finished")

    def _kinds(self) -> list[tuple[str, int, dict[str, str]]]:
        ready = {"state": "'queued'", "is_ready": "true", "priority": "0", **NULLS}
        an_hour_ago, tomorrow = "now() - interval '1 hour'", "now() + interval '1 day'"
        work, other = "'work'", "'other'"
        return [
            ("queued", self.queued, {**ready, "type": work, "moment": an_hour_ago}),
            ("other", self.others, {**ready, "type": other, "moment": "now() - interval '2 hours'"}),
            (
                "scheduled",
                self.scheduled,
                {**ready, "type": work, "moment": tomorrow, "is_ready": "false", "priority": "9"},
            ),
            (
                "running",
                self.running,
                {**ready, **HELD, "type": work, "moment": an_hour_ago, "state": "'running'", "is_ready": "false"},
            ),
        ]
