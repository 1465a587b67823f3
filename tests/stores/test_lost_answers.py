"""A connection is cut at any point of an operation: the operation takes effect once, or raises `StoreUnavailable`."""

from collections.abc import Iterable, Iterator
from contextlib import closing

import pytest

from tenure.backends.protocol import Backend
from tenure.core.operations import Heartbeat, HoldStatus
from tenure.errors import StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    as_taken,
    build_completion,
    build_record,
    extend,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.operations import NOT_REPEATED, REPEATED, stored
from tests.servers.servers import Servers
from tests.stores.lost_answers import ALL, KINDS, ProxiedStore
from tests.tiers import only_in_all

IMPATIENT = "&timeout=1.5"

CUTS = [(name, cut) for name, kind in KINDS.items() for cut in kind.cuts]
CUTS_WITHOUT_RESULT = [(name, cut) for name, cut in CUTS if not KINDS[name].cuts[cut].needs_result]
CUTS_OF_THE_ANSWER = [(name, cut) for name, cut in CUTS if KINDS[name].cuts[cut].stored == ALL]


def at(cuts: Iterable[tuple[str, str]]) -> pytest.MarkDecorator:
    """Run a test for each of these servers and cuts; in tier 1 only for the cut that loses the response."""
    chosen = [
        pytest.param(name, cut, marks=() if KINDS[name].cuts[cut].point is KINDS[name].lost_answer else only_in_all)
        for name, cut in cuts
    ]
    return pytest.mark.parametrize(("proxied", "cut"), chosen, indirect=["proxied"])


@pytest.fixture(params=KINDS)
def proxied(request: pytest.FixtureRequest, servers: Servers) -> Iterator[ProxiedStore]:
    with KINDS[request.param].made(servers, request.param) as proxied:
        yield proxied


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(proxied: ProxiedStore, clock: Clock) -> Iterator[Backend]:
    """A handle whose connections are not cut."""
    with closing(proxied.open(clock)) as store:
        yield store


@pytest.fixture
def through(proxied: ProxiedStore, clock: Clock) -> Iterator[Backend]:
    """A handle with an open connection through the proxy."""
    with proxied.through(clock) as through:
        yield through


@pytest.mark.parametrize("operation", REPEATED)
@at(CUTS)
def test_an_operation_that_is_cut_off_is_sent_again_and_is_done_once(
    proxied: ProxiedStore, store: Backend, through: Backend, clock: Clock, operation: str, cut: str
) -> None:
    jobs = proxied.given(store, clock)
    made = proxied.proxy.cut(proxied.cuts[cut].point, seen_off=True)

    answer = REPEATED[operation](through, jobs)

    assert made.is_done
    assert (answer, stored(store)) == proxied.undisturbed(REPEATED[operation])
    assert proxied.faults() == {}


@pytest.mark.parametrize("operation", NOT_REPEATED)
@at(CUTS)
def test_an_operation_that_may_not_be_repeated_raises_when_it_is_cut_off_and_is_done_once_or_not_at_all(
    proxied: ProxiedStore, store: Backend, through: Backend, clock: Clock, operation: str, cut: str
) -> None:
    jobs = proxied.given(store, clock)
    untouched = stored(store)
    _, done = proxied.undisturbed(NOT_REPEATED[operation])
    made = proxied.proxy.cut(proxied.cuts[cut].point, seen_off=True)

    with pytest.raises(StoreUnavailable, match=proxied.cut_off):
        NOT_REPEATED[operation](through, jobs)

    assert made.is_done
    assert stored(through) == (done if operation in proxied.cuts[cut].stored else untouched)
    assert proxied.faults() == {}


@pytest.mark.parametrize("operation", REPEATED)
@at(CUTS_OF_THE_ANSWER)
def test_a_reset_in_place_of_an_answer_is_as_any_other_end_of_a_connection(
    proxied: ProxiedStore, store: Backend, through: Backend, clock: Clock, operation: str, cut: str
) -> None:
    jobs = proxied.given(store, clock)
    made = proxied.proxy.cut(proxied.cuts[cut].point, reset=True, seen_off=True)

    answer = REPEATED[operation](through, jobs)

    assert made.is_done
    assert (answer, stored(store)) == proxied.undisturbed(REPEATED[operation])


@at(CUTS_WITHOUT_RESULT)
def test_a_pause_that_is_cut_off_arrives(proxied: ProxiedStore, store: Backend, through: Backend, cut: str) -> None:
    store.enqueue([build_record()])
    made = proxied.proxy.cut(proxied.cuts[cut].point, seen_off=True)

    through.pause(["default"])

    assert made.is_done
    assert take(store) == []


@at(CUTS_WITHOUT_RESULT)
def test_a_resume_that_is_cut_off_arrives(proxied: ProxiedStore, store: Backend, through: Backend, cut: str) -> None:
    store.enqueue([build_record()])
    store.pause(["default"])
    made = proxied.proxy.cut(proxied.cuts[cut].point, seen_off=True)

    through.resume(["default"])

    assert made.is_done
    assert len(take(store)) == 1


@at(CUTS_WITHOUT_RESULT)
def test_a_heartbeat_that_is_cut_off_arrives(proxied: ProxiedStore, store: Backend, through: Backend, cut: str) -> None:
    made = proxied.proxy.cut(proxied.cuts[cut].point, seen_off=True)

    through.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), 60)

    assert made.is_done
    assert [worker.name for worker in store.workers()] == ["w1"]


@at(CUTS)
def test_a_wait_that_is_cut_off_looks_again_by_itself(proxied: ProxiedStore, store: Backend, cut: str) -> None:
    store.enqueue([build_record()])
    with proxied.through(None, proxied.options_to_wait) as through:
        made = proxied.proxy.cut(proxied.cuts_of_a_wait[cut].point, seen_off=True)

        through.wait(None, None, 60)

    assert made.is_done
    assert proxied.faults() == {}


def test_a_wait_that_ends_while_the_server_is_away_raises(proxied: ProxiedStore, store: Backend) -> None:
    store.enqueue([build_record()])
    with proxied.through(None, "&timeout=0.1") as through, proxied.proxy.refusing():
        proxied.proxy.cut_all()

        with pytest.raises(StoreUnavailable, match="Connection refused"):
            through.wait(None, None, 0.1)


def test_an_enqueue_that_is_sent_again_does_not_conflict_with_its_own_key(
    proxied: ProxiedStore, store: Backend, through: Backend
) -> None:
    made = proxied.proxy.cut(proxied.lost_answer, seen_off=True)

    through.enqueue([build_record(id="new", key="free", on_conflict="raise")])

    assert made.is_done
    assert store.stats().total("due") == 1


def test_a_claim_whose_answer_is_lost_for_good_is_adopted_by_the_same_request(
    proxied: ProxiedStore, store: Backend, clock: Clock
) -> None:
    store.enqueue([build_record(id="one"), build_record(id="two")])
    asked = request(limit=1)
    with proxied.through(clock, IMPATIENT) as through:
        made = proxied.proxy.cut(proxied.lost_answer, seen_off=True)
        with proxied.proxy.refusing(), pytest.raises(StoreUnavailable, match="Connection refused"):
            through.claim(asked)

        claimed = through.claim(asked)

    assert made.is_done
    assert [(job.id, job.fence, job.attempts) for job in claimed.jobs] == [("one", 1, 1)]
    assert store.stats().total("running") == 1
    assert proxied.faults() == {}


def test_a_claim_whose_client_is_gone_expires_and_the_next_claim_takes_over(
    proxied: ProxiedStore, store: Backend, clock: Clock
) -> None:
    store.enqueue([build_record(id="one")])
    asked = request(lease=60)
    with proxied.through(clock, IMPATIENT) as through:
        proxied.proxy.cut(proxied.lost_answer, seen_off=True)
        with proxied.proxy.refusing(), pytest.raises(StoreUnavailable):
            through.claim(asked)
    before_it_expired = take(store)
    lost = as_taken(job_of(store, "one"), asked)

    clock.advance(60)
    taken = take_one(store)

    assert before_it_expired == []
    assert (lost.hold.fence, taken.hold.fence) == (1, 2)
    assert extend(store, lost.hold) == HoldStatus.LOST
    assert not settle(store, build_completion(lost))
    assert settle(store, build_completion(taken))


def test_a_server_that_falls_silent_is_unavailable_and_so_is_one_that_does_not_greet(
    proxied: ProxiedStore, store: Backend, clock: Clock
) -> None:
    """Slow: two time-outs pass."""
    with proxied.through(clock, IMPATIENT) as through:
        with proxied.proxy.black_hole():
            with pytest.raises(StoreUnavailable, match=proxied.silent):
                through.enqueue([build_record(id="one")])
            with pytest.raises(StoreUnavailable, match=proxied.does_not_greet):
                through.enqueue([build_record(id="one")])

        through.enqueue([build_record(id="one")])

    assert store.stats().total("due") == 1


def test_an_answer_that_comes_too_late_is_not_taken_for_the_answer_to_the_next_request(
    proxied: ProxiedStore, store: Backend, clock: Clock
) -> None:
    store.enqueue([build_record(id="one"), build_record(id="two")])
    with proxied.through(clock, IMPATIENT) as through:
        with proxied.proxy.holding(), pytest.raises(StoreUnavailable, match=proxied.silent):
            job_of(through, "one")

        assert job_of(through, "two").id == "two"
