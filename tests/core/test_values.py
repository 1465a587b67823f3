"""Jobs, requests, ids and the back-off as values."""

import pickle
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.backends.memory import Memory
from tenure.core.backoff import Backoff
from tenure.core.filters import build_query, build_row_query, has_condition, parse_states
from tenure.core.ids import uuid7
from tenure.core.job import FINISHED, Ending, Job, NewJob, Outcome, Progress, State
from tenure.core.operations import (
    BUSY,
    ClaimRequest,
    Extension,
    Heartbeat,
    Hold,
    Moved,
    Purge,
    Query,
    Refusal,
    Slot,
    Stats,
    StatsRow,
    Unsettled,
    WorkerInfo,
    check_hold,
    check_lease,
)
from tenure.errors import ClaimLost, ConfigurationError, InvalidPayload, KeyTaken, TenureError
from tenure.testing import Clock


def some_job() -> Job:
    clock = Clock()
    store = Memory(clock=clock)
    store.enqueue([NewJob("send", {"n": [1]}, meta={"a": "b"}).record("a")])
    return store.find(Query()).jobs[0]


def test_a_new_job_has_the_documented_defaults() -> None:
    entry = NewJob("send").record("made")

    assert (entry.id, entry.type, entry.payload, entry.queue) == ("made", "send", "{}", "default")
    assert (entry.priority, entry.key, entry.on_conflict, entry.delay, entry.run_at) == (0, None, "keep", 0.0, None)
    assert (entry.max_attempts, entry.max_crashes, entry.timeout, entry.meta) == (5, 3, None, {})


def test_a_new_job_keeps_its_own_id() -> None:
    assert NewJob("send", id="mine").record("made").id == "mine"


def test_a_new_job_takes_durations_as_timedeltas() -> None:
    entry = NewJob("send", delay=timedelta(minutes=1), timeout=timedelta(seconds=2)).record("made")

    assert (entry.delay, entry.timeout) == (60.0, 2.0)


def test_a_new_job_takes_a_moment_of_the_callers_own() -> None:
    run_at = datetime(2030, 1, 1, tzinfo=UTC)

    assert NewJob("send", run_at=run_at).record("made").run_at == run_at


REFUSED: dict[str, dict[str, Any]] = {
    "priority": {"priority": 32_768},
    "max_attempts": {"max_attempts": 0},
    "max_crashes": {"max_crashes": None},
    "timeout": {"timeout": 0},
    "queue": {"queue": ""},
    "key": {"key": ""},
    "id": {"id": "a\nb"},
    "on_conflict": {"on_conflict": "ignore"},
    "delay": {"delay": -1},
    "run_at": {"run_at": "tomorrow"},
    "run_at or delay, not both": {"run_at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 0},
    "meta": {"meta": {"a": 1}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_new_job_with_a_wrong_option_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        NewJob("send", **REFUSED[name]).record("made")


def test_a_new_job_with_a_misspelt_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="NewJob has no option 'prioritty'; did you mean 'priority'"):
        NewJob("send", prioritty=1)  # type: ignore[call-arg]


def test_a_new_job_with_a_wrong_payload_is_refused() -> None:
    with pytest.raises(InvalidPayload):
        NewJob("send", {"a": object()}).record("made")


def test_configuration_errors_are_value_errors() -> None:
    with pytest.raises(ValueError, match="type must be a string"):
        NewJob(7).record("made")  # type: ignore[arg-type]


def test_progress_is_of_finite_numbers_and_kept_text() -> None:
    assert Progress(done=1, of=2, note="a\0").note == "a\ufffd"
    assert Progress(done=0.5).of is None
    with pytest.raises(ConfigurationError, match="done must be a number"):
        Progress(done=float("nan"))
    with pytest.raises(ConfigurationError, match="of must be a number"):
        Progress(done=1, of="ten")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [("limit", 0), ("limit", 1_001), ("lease", 0.5), ("lease", 86_401), ("worker", ""), ("token", "")],
)
def test_a_claim_request_out_of_range_is_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} must"):
        ClaimRequest(**{"worker": "w", "token": "t", option: value})


def test_a_lease_is_a_second_to_a_day() -> None:
    assert (check_lease(1), check_lease(timedelta(days=1))) == (1.0, 86_400.0)


def test_what_a_holder_shows_is_an_id_a_fence_and_a_token() -> None:
    assert check_hold("a", 7, "t") == Hold(id="a", fence=7, token="t")
    with pytest.raises(ConfigurationError, match="fence must be 1 to"):
        check_hold("a", 0, "t")
    with pytest.raises(ConfigurationError, match="token must be a string, not None"):
        check_hold("a", 1, None)
    with pytest.raises(ConfigurationError, match="id must be a string, not 7"):
        check_hold(7, 1, "t")


def test_a_page_has_a_bound() -> None:
    with pytest.raises(ConfigurationError, match="limit must be 1 to 1,000"):
        Query(limit=1_001)
    with pytest.raises(ConfigurationError, match="the number of ids must be 0 to 1,000, not 1001"):
        Query(ids=("a",) * 1_001)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Purge(older_than=float("nan")),
        lambda: Purge(older_than=0, limit=0),
        lambda: Extension(hold=Hold(id="a", fence=1, token="t"), lease=0.5),
        lambda: Heartbeat(name="", host="h", pid=1, version="1"),
        lambda: Query(error=""),
        lambda: Slot(at=datetime(2026, 1, 1), record=NewJob("send").record("a")),  # noqa: DTZ001
    ],
)
def test_a_request_out_of_range_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_a_job_tells_what_went_wrong_but_not_what_an_operator_did() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    endings = [
        Ending(outcome=Outcome.FAILED, fence=1, ended_at=at, error="first"),
        Ending(outcome=Outcome.RELEASED, fence=2, ended_at=at),
        Ending(outcome=Outcome.OPERATOR, fence=2, ended_at=at, error="retry: by hand"),
        Ending(outcome=Outcome.CANCELLED, fence=3, ended_at=at, error="last"),
    ]

    assert replace(some_job(), history=tuple(endings)).errors == ["first", "last"]


def test_jobs_are_values_that_can_be_compared_and_put_in_a_set() -> None:
    assert some_job() == some_job()
    assert len({some_job(), some_job()}) == 1


def test_what_became_of_a_job_reads_as_a_line() -> None:
    assert Moved(id="a", state=State.QUEUED).moved
    assert str(Moved(id="a", state=State.QUEUED)) == "a: queued"
    assert str(Moved(id="a", state=None)) == "a: deleted"
    assert str(Moved(id="a", state=None, refusal=Refusal.UNKNOWN)) == "a: not moved, no such job"
    assert (
        str(Moved(id="a", state=State.RUNNING, refusal=Refusal.STATE))
        == "a: not moved, its state does not allow it (running)"
    )


def test_a_worker_is_its_sign_of_life_and_more() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    beat = Heartbeat(name="w1", host="h", pid=7, version="1", concurrency=8, types=("a",))

    worker = WorkerInfo.from_heartbeat(beat, started_at=at, beat_at=at, holding=3)

    assert (worker.name, worker.pid, worker.concurrency, worker.types, worker.holding) == ("w1", 7, 8, ("a",), 3)


@pytest.mark.parametrize(
    "error", [ClaimLost("gone", id="a", fence=3), KeyTaken(key="k", queue="q", id="a"), ConfigurationError("x")]
)
def test_an_error_crosses_processes(error: TenureError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert (str(again), vars(again)) == (str(error), vars(error))


def test_totals_are_sums_of_rows() -> None:
    stats = Stats(rows=(StatsRow(queue="x", type="a", due=1), StatsRow(queue="y", type="a", due=2)))

    assert (stats.total("due"), stats.total("due", queue="y"), stats.total("due", queue="z")) == (3, 2, 0)
    with pytest.raises(ConfigurationError, match=r"column must be 'due' or .* not 'queued'"):
        stats.total("queued")  # type: ignore[arg-type]


def test_filters_become_a_query() -> None:
    query = build_query(
        "find",
        {
            "state": ["failed", "cancelled"],
            "queue": "mail",
            "type": ["a", "b"],
            "key": "k",
            "worker": "w",
            "error": "Timeout",
            "since": timedelta(hours=1),
            "attempts_over": 2,
            "due": False,
            "newest_first": False,
        },
    )

    assert query == Query(
        states=frozenset({State.FAILED, State.CANCELLED}),
        queues=("mail",),
        types=("a", "b"),
        key="k",
        worker="w",
        error="Timeout",
        since=3600.0,
        attempts_over=2,
        due=False,
        newest_first=False,
        limit=1_000,
    )


def test_no_filters_are_no_conditions() -> None:
    assert build_query("find", {}) == Query(limit=1_000)


def test_a_filter_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="cancel has no option 'reson'; did you mean 'reason'"):
        build_query("cancel", {"reson": "x"}, "ids", "reason")  # type: ignore[typeddict-unknown-key]


def test_a_state_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="not 'complete'; did you mean 'completed'"):
        parse_states("complete")  # type: ignore[arg-type]


def test_no_state_is_no_condition() -> None:
    assert parse_states(None) is None
    assert parse_states(FINISHED) == FINISHED


def test_an_order_or_none_is_not_a_condition() -> None:
    assert not has_condition({})
    assert not has_condition({"newest_first": False})
    assert not has_condition({"queue": None})  # type: ignore[typeddict-item]
    assert has_condition({"queue": "mail", "newest_first": True})


def test_an_id_is_a_uuid_of_version_7_in_time_order() -> None:
    early, late = uuid7(1_700_000_000_000, bytes(10)), uuid7(1_700_000_000_001, b"\xff" * 10)

    assert (uuid.UUID(early).version, uuid.UUID(early).variant) == (7, uuid.RFC_4122)
    assert (uuid.UUID(late).version, uuid.UUID(late).variant) == (7, uuid.RFC_4122)
    assert early < late
    assert uuid.UUID(early).int >> 80 == 1_700_000_000_000


def test_an_id_has_the_known_form() -> None:
    assert uuid7(0x017F22E279B0, bytes.fromhex("0cc318c4dc0c0c07398f")) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_the_back_off_doubles_up_to_its_cap() -> None:
    backoff = Backoff()

    assert [backoff.delay(attempt, lambda: 1.0) for attempt in (1, 2, 3, 10, 11)] == [5, 10, 20, 2560, 3600]


def test_the_back_off_is_anywhere_below() -> None:
    assert Backoff().delay(3, lambda: 0.0) == 0.0
    assert Backoff().delay(3, lambda: 0.25) == 5.0


def test_the_back_off_of_very_many_attempts_is_its_cap() -> None:
    assert Backoff(cap=60).delay(10**6, lambda: 1.0) == 60.0


def test_a_back_off_takes_timedeltas() -> None:
    backoff = Backoff(first=timedelta(seconds=2), cap=timedelta(seconds=3))  # type: ignore[arg-type]

    assert (backoff.delay(1, lambda: 1.0), backoff.delay(2, lambda: 1.0)) == (2.0, 3.0)


@pytest.mark.parametrize("options", [{"first": -1}, {"cap": "x"}, {"factor": 0.5}])
def test_a_back_off_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Backoff(**options)


@pytest.mark.parametrize("host", ["", "db.example.org"])
def test_a_sign_of_life_has_a_host_or_none(host: str) -> None:
    assert Heartbeat(name="w", host=host, pid=1, version="1").host == host


def test_a_host_that_not_every_store_can_keep_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="host must be printable text"):
        Heartbeat(name="w", host="a\0b", pid=1, version="1")


def test_the_conditions_for_rows_are_those_that_a_table_has() -> None:
    query = build_row_query("find", {"attempts_over": 5, "state": "failed", "newest_first": False})

    assert query == Query(attempts_over=5, states=frozenset({State.FAILED}), newest_first=False, limit=1_000)
    with pytest.raises(ConfigurationError, match="find has no option 'queue'"):
        build_row_query("find", {"queue": "mail"})  # type: ignore[typeddict-unknown-key]


def test_a_settlement_that_did_not_land_is_false_as_a_condition() -> None:
    assert not BUSY
    assert not Unsettled("rejected", is_failed=True)
