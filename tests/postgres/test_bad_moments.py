"""After a fork or an interrupt at any time, a session belongs to one process, and a response to one request."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from tenure.backends.postgres import PostgreSQL, pipeline
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.statements import make_statement
from tenure.testing.conformance.building import build_record, job_of
from tests.postgres.bad_moments import play
from tests.postgres.stores import Place
from tests.tiers import only_in_all

BACKEND = make_statement("select to_json(pg_backend_pid())")


class Interruption:
    """Raises KeyboardInterrupt before a chosen line of the client code, and again before some later lines."""

    def __init__(self, line: int, *again: int) -> None:
        self._lines = {line, *(line + each for each in again)}
        self._number = 0
        self.has_happened = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interruption | None":
        if frame.f_code.co_filename != pipeline.__file__:
            return None
        self._number += event == "line"
        if event == "line" and self._number in self._lines:
            self.has_happened = True
            raise KeyboardInterrupt
        return self


@contextmanager
def interrupting(interruption: Interruption) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(interruption)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)


def test_a_connection_whose_answers_nobody_has_received_is_not_used_again(store: PostgreSQL) -> None:
    pool, ask = store.database._pool, [BoundQuery(BACKEND)]
    (first,) = store.database.execute(ask)

    with pool.connection() as unread:
        unread.send(ask)
        assert not unread.is_open

    assert store.database.execute(ask) != [first]


def test_both_sides_of_a_fork_go_on_and_the_end_of_the_child_ends_no_session_of_the_parent(place: Place) -> None:
    seen = play("child_ends", place)

    assert seen == {"codes": [0], "has all": True, "hears": True}


@only_in_all
def test_a_child_does_not_hang_that_was_forked_while_other_threads_were_busy(place: Place) -> None:
    """Slow: the process forks again and again."""
    codes = play("forked_while_busy", place, 6)

    assert codes == [0] * 6


def test_interrupts_at_any_moment_leave_no_answer_for_another_and_no_connection_in_use(place: Place) -> None:
    """Slow: hundreds of interrupts."""
    interrupts = play("interrupted", place, 80)

    assert interrupts == 80


# A connection without references at that time is closed by the garbage collector, and the driver warns.
@only_in_all
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("again", [(), (2,)], ids=["once", "again while it is closed"])
def test_an_interrupt_before_any_line_leaves_no_answer_for_another_and_no_connection_in_use(
    place: Place, again: tuple[int, ...]
) -> None:
    """Slow: each line of the code is interrupted once."""
    store = place.open("&connections=1&timeout=60")
    store.enqueue([build_record(id="one"), build_record(id="two")])
    line, has_happened = 0, True

    while has_happened:
        line += 1
        interruption = Interruption(line, *again)
        with interrupting(interruption):
            assert job_of(store, "one").id == "one"
        has_happened = interruption.has_happened
        assert job_of(store, "two").id == "two"

    assert line > 50
    store.close()
