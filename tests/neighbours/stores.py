"""The jobs of a store as members."""
# ruff: noqa: S608 - statements contain the names of tables

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import tenure
from tenure.core.job import Job, State
from tests.neighbours import job_kinds
from tests.neighbours.board import Board
from tests.neighbours.locks import LockPlan
from tests.neighbours.members import Kind, Member, chosen
from tests.neighbours.settings import ABANDONED_LEASE, BACKOFF, BEFORE_START, DEAD
from tests.neighbours.target import Target, batches
from tests.processes.grounds import Ground

ENQUEUED_AT_ONCE = 500
CLAIMED_AT_ONCE = 100


class StoreTarget(Target):
    """A store of jobs. `server` and `schema` are those of a PostgreSQL store; the `ground` checks the content."""

    def __init__(
        self, *, url: str, server: str | None = None, schema: str | None = None, ground: Ground | None = None
    ) -> None:
        self._url, self._server, self._schema, self._ground = url, server, schema, ground
        self._jobs = tenure.Jobs(url, backoff=BACKOFF)
        self.kinds = (*job_kinds.KINDS, *job_kinds.LOCKED) if server is not None else job_kinds.KINDS

    @property
    def options(self) -> dict[str, Any]:
        return {"url": self._url, "server": self._server, "schema": self._schema}

    @property
    def has_own_processes(self) -> bool:
        return not self._url.startswith("memory:")

    def member(self, position: int, kind: Kind) -> Member:
        return Member(f"{kind.name}-{position}", kind, position)

    def fill(self, members: Sequence[Member]) -> None:
        for batch in batches(members, ENQUEUED_AT_ONCE):
            self._jobs.enqueue_many(map(job_kinds.new_job, batch))

    def prepare(self, members: Sequence[Member]) -> None:
        if ids := chosen(members, "cancelled_queued"):
            self._jobs.cancel(ids)
        if chosen(members, "abandoned", "abandoned_twice"):
            self._abandon("abandoned_twice")
            time.sleep(ABANDONED_LEASE)
            self._abandon("abandoned_twice")
            self._abandon("abandoned")
            time.sleep(BEFORE_START)

    def _abandon(self, type: str) -> None:
        """Claim jobs for a worker that never settles."""
        claim = self._jobs.claim
        while claim(types=type, limit=CLAIMED_AT_ONCE, lease=ABANDONED_LEASE, worker=DEAD):
            pass

    def open_source(self, board: Board) -> tenure.Jobs:
        jobs = tenure.Jobs(self._url, backoff=BACKOFF) if self.has_own_processes else self._jobs
        job_kinds.add_tasks(jobs, board)
        return jobs

    def states(self) -> Counter[tuple[str, State]]:
        found: Counter[tuple[str, State]] = Counter()
        for row in self._jobs.stats().rows:
            found[row.type, State.QUEUED] += row.due + row.scheduled
            for state in (State.RUNNING, State.COMPLETED, State.FAILED, State.CANCELLED):
                found[row.type, state] += getattr(row, state.value)
        return found

    def find(self) -> Iterator[Job]:
        return self._jobs.find()

    def lock_plan(self, members: Sequence[Member]) -> LockPlan | None:
        if self._server is None:
            return None
        jobs = f"{self._schema}.jobs"
        return LockPlan(
            url=self._server,
            first=[(f"select id from {jobs} where id = any(%s) for update", chosen(members, "locked_queued"))],
            while_running=f"select id from {jobs} where id = any(%s) and state = 'running' for update skip locked",
            running_ids=chosen(members, "locked_held"),
        )

    def is_whole(self) -> bool:
        return self._ground is None or bool(self._ground.verdict()["is whole"])

    def close(self) -> None:
        self._jobs.close()
