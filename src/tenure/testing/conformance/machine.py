"""A state machine that runs random operations on two stores and compares every result.

One store is the reference, the second is under test. Both use the same clock, which the machine advances.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tenure.backends.protocol import Backend
from tenure.core.job import FINISHED, Job, JobRecord, NewJob, Progress, State
from tenure.core.operations import (
    ClaimRequest,
    Extension,
    Heartbeat,
    Hold,
    Move,
    Purge,
    Query,
    Slot,
)
from tenure.errors import KeyTaken
from tenure.testing.clock import Clock
from tenure.testing.conformance.building import ENDINGS, Taken, as_taken, build_failure, token

R = TypeVar("R")

SHRINKS = "TENURE_SHRINK" in os.environ
"""Whether a failing run is shrunk to a minimal example, which takes minutes."""

OpenPair = Callable[[Clock], tuple[Backend, Backend]]

QUEUES = ["q1", "q2"]
TYPES = ["t1", "t2"]
WORKERS = ["w1", "w2"]
IDS = [*"abcdefghijklmnopqrstuvwxyz"]

ids = st.sampled_from(IDS)
some_ids = st.lists(ids, min_size=1, max_size=6, unique=True)
# Mostly no filter: a narrow filter rarely matches a job.
some_queues = st.sampled_from([None, None, None, ("q1",), ("q2",), ("q2", "q1")])
some_types = st.sampled_from([None, None, None, ("t1",), ("t2",), ("t2", "t1")])
seconds = st.sampled_from([0.0, 0.0, 1.0, 10.0, 60.0])
leases = st.sampled_from([1.0, 10.0, 60.0])
workers = st.sampled_from(WORKERS)
limits = st.integers(1, 4)
endings = st.sampled_from([*ENDINGS.values(), lambda taken: build_failure(taken, final=True)])
progresses = st.none() | st.builds(Progress, done=st.integers(0, 9), of=st.none() | st.just(10))


def jobs(on_conflict: st.SearchStrategy[str]) -> st.SearchStrategy[JobRecord]:
    return st.builds(
        NewJob,
        type=st.sampled_from(TYPES),
        payload=st.builds(lambda n: {"n": n}, st.integers(0, 9)),
        id=ids,
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from([-1, 0, 1]),
        delay=seconds,
        key=st.sampled_from([None, "k1", "k2", "k3"]),
        on_conflict=on_conflict,
        max_attempts=st.sampled_from([None, 1, 2, 5]),
        max_crashes=st.sampled_from([1, 2, 3]),
    ).map(lambda job: job.record("unused"))


chores = st.one_of(
    st.builds(lambda ids: lambda store: store.delete(ids), some_ids),
    st.builds(
        lambda purge: lambda store: store.purge(purge),
        st.builds(
            Purge,
            older_than=seconds,
            states=st.frozensets(st.sampled_from(sorted(FINISHED)), min_size=1),
            queues=some_queues,
            limit=limits,
        ),
    ),
    st.builds(lambda queue: lambda store: store.pause([queue]), st.sampled_from(QUEUES)),
    st.builds(lambda queues: lambda store: store.resume(queues), st.just(QUEUES)),
    st.builds(
        lambda worker, ttl: lambda store: store.beat(Heartbeat(name=worker, host="h", pid=1, version="1"), ttl),
        workers,
        st.sampled_from([0.0, 5.0, 100.0]),
    ),
)


class Comparison(RuleBasedStateMachine):
    open_pair: ClassVar[OpenPair]

    taken = Bundle("taken")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.reference, self.other = type(self).open_pair(self.clock)
        self.fences: dict[str, int] = {}

    def assert_same(self, operation: Callable[[Backend], R]) -> R | KeyTaken:
        """Run an operation on both stores; results or errors must be equal."""
        expected = _result_or_error(operation, self.reference)
        actual = _result_or_error(operation, self.other)
        assert _comparable(actual) == _comparable(expected)
        return expected

    @initialize(entries=st.lists(jobs(st.just("keep")), min_size=6, max_size=12))
    def begin_with_some_jobs(self, entries: list[JobRecord]) -> None:
        self.assert_same(lambda store: store.enqueue(entries))

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 10.0, 60.0, 3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(entries=st.lists(jobs(st.sampled_from(["keep", "raise"])), min_size=1, max_size=4))
    def enqueue(self, entries: list[JobRecord]) -> None:
        self.assert_same(lambda store: store.enqueue(entries))

    @rule(
        name=st.sampled_from(["s1", "s2"]),
        slots=st.lists(
            st.tuples(st.sampled_from([-60.0, -1.0, 0.0, 1.0, 60.0]), jobs(st.sampled_from(["keep", "raise"]))),
            max_size=3,
        ),
    )
    def schedule(self, name: str, slots: list[tuple[float, JobRecord]]) -> None:
        given = [Slot(at=self.clock.now + timedelta(seconds=ahead), record=entry) for ahead, entry in slots]
        self.assert_same(lambda store: store.schedule(name, given))

    @rule(target=taken, queues=some_queues, types=some_types, limit=limits, lease=leases, worker=workers)
    def claim(self, **options: Any) -> Any:
        return self._claim(ClaimRequest(token=token(), **options))

    @rule(target=taken, limit=limits, lease=leases, worker=workers)
    def claim_whatever_is_due(self, **options: Any) -> Any:
        return self._claim(ClaimRequest(token=token(), **options))

    @rule(target=taken, old=taken, limit=limits)
    def claim_again(self, old: Taken, limit: int) -> Any:
        return self._claim(ClaimRequest(token=old.hold.token, limit=limit, worker="w1"))

    @rule(target=taken, settled=st.lists(st.tuples(taken, endings), min_size=1, max_size=3), limit=limits)
    def exchange(self, settled: list[Any], limit: int) -> Any:
        settlements = [ending(taken) for taken, ending in settled]
        request = ClaimRequest(token=token(), limit=limit, worker="w2")
        result: Any = self.assert_same(lambda store: store.exchange(settlements, request))
        return self._taken(result[1].jobs, request)

    @rule(settled=st.lists(st.tuples(taken, endings), min_size=1, max_size=3))
    def settle(self, settled: list[Any]) -> None:
        settlements = [ending(taken) for taken, ending in settled]
        self.assert_same(lambda store: store.settle(settlements))

    @rule(extended=st.lists(st.tuples(taken, leases, progresses), min_size=1, max_size=3))
    def extend(self, extended: list[tuple[Taken, float, Progress | None]]) -> None:
        extensions = [Extension(hold=taken.hold, lease=lease, progress=progress) for taken, lease, progress in extended]
        self.assert_same(lambda store: store.extend(extensions))

    @rule(taken=taken, fence=st.sampled_from([-1, 0, 1]), other_token=st.booleans(), ending=endings)
    def settle_with_a_forged_hold(self, taken: Taken, fence: int, other_token: bool, ending: Any) -> None:  # noqa: FBT001
        forged = Hold(id=taken.id, fence=taken.hold.fence + fence, token="forged" if other_token else taken.hold.token)
        self.assert_same(lambda store: store.settle([ending(Taken(taken.job, forged))]))
        self.assert_same(lambda store: store.extend([Extension(hold=forged, lease=60)]))

    @rule(limit=limits, worker=st.none() | workers, started=st.none() | some_ids)
    def reap(self, limit: int, worker: str | None, started: list[str] | None) -> None:
        self.assert_same(lambda store: store.reap(limit, worker, started))

    @rule(taken=taken, ending=endings)
    def end_after_a_cancel_was_asked_for(self, taken: Taken, ending: Any) -> None:
        self.assert_same(lambda store: store.move([taken.id], Move.CANCEL, "stop"))
        self.assert_same(lambda store: store.extend([Extension(hold=taken.hold, lease=60)]))
        self.assert_same(lambda store: store.settle([ending(taken)]))

    @rule(taken=taken)
    def run_out_after_a_cancel_was_asked_for(self, taken: Taken) -> None:
        self.assert_same(lambda store: store.move([taken.id], Move.CANCEL))
        self.clock.advance(61)
        self.assert_same(lambda store: store.reap())

    @rule(taken=taken, retried_by=st.sampled_from(["before", "after"]), new=jobs(st.just("raise")))
    def retry_a_job_whose_key_may_be_taken(self, taken: Taken, retried_by: str, new: JobRecord) -> None:
        rival = replace(new, queue=taken.job.queue, key=taken.job.key)
        self.assert_same(lambda store: store.settle([build_failure(taken, final=True)]))
        if retried_by == "before":
            self.assert_same(lambda store: store.move([taken.id], Move.RETRY, "again"))
        self.assert_same(lambda store: store.enqueue([rival]))
        self.assert_same(lambda store: store.move([taken.id], Move.RETRY))

    @rule(taken=taken, move=st.sampled_from(Move))
    def move_what_was_claimed(self, taken: Taken, move: Move) -> None:
        self.assert_same(lambda store: store.move([taken.id], move, "by hand"))

    @rule(
        ids=some_ids,
        move=st.sampled_from(Move),
        reason=st.none() | st.just("because"),
    )
    def move(self, ids: list[str], move: Move, reason: str | None) -> None:
        self.assert_same(lambda store: store.move(ids, move, reason))

    @rule(chore=chores)
    def do_a_chore(self, chore: Callable[[Backend], object]) -> None:
        self.assert_same(chore)
        # The fences of a deleted id start again.
        stored = {job.id for job in _all_pages(self.reference, Query())}
        self.fences = {id: fence for id, fence in self.fences.items() if id in stored}

    @rule(
        states=st.none() | st.frozensets(st.sampled_from(State), min_size=1),
        queues=some_queues,
        types=some_types,
        key=st.none() | st.just("k1"),
        worker=st.none() | st.just("w1"),
        error=st.none() | st.just("roke"),
        since=st.none() | seconds,
        attempts_over=st.none() | st.integers(0, 2),
        due=st.none() | st.booleans(),
        newest_first=st.booleans(),
        limit=limits,
    )
    def find(self, **conditions: Any) -> None:
        self.assert_same(lambda store: _all_pages(store, Query(**conditions)))

    @rule(ids=some_ids, newest_first=st.booleans(), limit=limits)
    def find_by_id(self, ids: list[str], newest_first: bool, limit: int) -> None:  # noqa: FBT001
        self.assert_same(lambda store: _all_pages(store, Query(ids=tuple(ids), newest_first=newest_first, limit=limit)))

    @rule(ids=some_ids, queues=some_queues, types=some_types)
    def look_at_some_closely(
        self, ids: list[str], queues: tuple[str, ...] | None, types: tuple[str, ...] | None
    ) -> None:
        self.assert_same(lambda store: [store.explain(id, queues, types) for id in ids])

    # A rule, not an invariant: reads after every step would hide the state that a step leaves.
    @rule()
    def look_at_everything(self) -> None:
        self.assert_same(lambda store: _all_pages(store, Query()))
        self.assert_same(lambda store: store.stats())
        self.assert_same(lambda store: store.counts(86_400.0))
        self.assert_same(lambda store: store.workers())
        for job in _all_pages(self.other, Query()):
            assert (job.state is State.RUNNING) == (job.leased_until is not None)
            assert job.max_attempts is None or job.attempts <= job.max_attempts
            assert 0 <= job.attempts <= job.fence

    def teardown(self) -> None:
        self.look_at_everything()
        self.reference.close()
        self.other.close()

    def _claim(self, request: ClaimRequest) -> Any:
        claimed: Any = self.assert_same(lambda store: store.claim(request))
        return self._taken(claimed.jobs, request)

    def _taken(self, jobs: list[Job], request: ClaimRequest) -> Any:
        for job in jobs:
            assert job.fence >= self.fences.get(job.id, 0)
            self.fences[job.id] = job.fence
        return multiple(*(as_taken(job, request) for job in jobs))


def compare(
    open_pair: OpenPair, *, examples: int, steps: int, at_random: bool = False, is_shrunk: bool = SHRINKS
) -> None:
    """Run `examples` sequences of `steps` operations: the same sequences each time, unless `at_random`."""
    machine = type("Comparison", (Comparison,), {"open_pair": staticmethod(open_pair)})
    play = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not at_random,
        database=None,
        print_blob=True,
        phases=set(Phase) if is_shrunk else {Phase.generate},
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(machine, settings=play)


def _result_or_error(operation: Callable[[Backend], R], store: Backend) -> R | KeyTaken:
    try:
        return operation(store)
    except KeyTaken as exc:
        return exc


def _comparable(result: object) -> object:
    return (result.key, result.queue, result.id) if isinstance(result, KeyTaken) else result


def _all_pages(store: Backend, query: Query) -> list[Job]:
    jobs: list[Job] = []
    cursor: str | None = None
    while True:
        page = store.find(replace(query, cursor=cursor))
        jobs += page.jobs
        if (cursor := page.cursor) is None:
            return jobs
