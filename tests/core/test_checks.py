"""Checks of the caller's values."""

import math
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum

import pytest

from tenure.core import checks
from tenure.errors import ConfigurationError

GOOD_NAMES = ["a", "with space", "ümläut", "a:b{c}", "x" * 200]
BAD_NAMES = ["", " ", " a", "a ", "x" * 201, "a\nb", "a\0b", "\ud800", None, 7, b"bytes"]


@pytest.mark.parametrize("value", GOOD_NAMES)
def test_a_name_is_short_printable_text(value: str) -> None:
    assert checks.name("queue", value) == value


@pytest.mark.parametrize("value", BAD_NAMES)
def test_any_other_name_is_refused_by_the_name_of_its_option(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^queue must"):
        checks.name("queue", value)


def test_a_long_name_is_not_shown_whole() -> None:
    with pytest.raises(ConfigurationError) as caught:
        checks.name("queue", "x" * 100_000)

    assert len(str(caught.value)) < 200


def test_one_string_is_one_name() -> None:
    assert checks.names("queues", "mail") == ("mail",)


def test_several_names_keep_their_order_and_lose_repetitions() -> None:
    assert checks.names("queues", ["b", "a", "b"]) == ("b", "a")


def test_an_empty_list_of_names_is_refused_where_one_is_needed() -> None:
    assert checks.names_or_empty("ids", []) == ()
    with pytest.raises(ConfigurationError, match="queues is empty; name at least one"):
        checks.names("queues", [])


@pytest.mark.parametrize("value", [None, 5, b"mail", {"mail": 1}])
def test_what_is_neither_a_name_nor_several_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="queues must be a name or a list of names, not"):
        checks.names("queues", value)


@pytest.mark.parametrize("value", [[["a"]], [5], ["a", None]])
def test_what_is_among_several_and_no_name_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="queues must be a string, not"):
        checks.names("queues", value)


@pytest.mark.parametrize("value", [1, 5, 10])
def test_a_whole_number_within_its_range_is_taken(value: int) -> None:
    assert checks.integer("limit", value, 1, 10) == value


@pytest.mark.parametrize("value", [0, 11, -1])
def test_a_whole_number_out_of_its_range_is_refused_with_the_range(value: int) -> None:
    with pytest.raises(ConfigurationError, match=f"limit must be 1 to 10, not {value}"):
        checks.integer("limit", value, 1, 10)


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_what_is_not_a_whole_number_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="limit must be a whole number"):
        checks.integer("limit", value, 1, 10)


def test_a_count_begins_at_nothing() -> None:
    assert checks.count("attempts_over", 0) == 0


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (1.5, 1.5), (timedelta(minutes=2), 120.0)])
def test_a_duration_is_a_number_of_seconds_or_a_timedelta(value: object, expected: float) -> None:
    assert checks.seconds("delay", value) == expected


@pytest.mark.parametrize("value", [-1, math.inf, timedelta(days=-1), 10**12, 10**400])
def test_a_duration_out_of_its_range_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="delay must be 0 to"):
        checks.seconds("delay", value)


@pytest.mark.parametrize("value", [True, "60", None, math.nan])
def test_what_is_not_a_duration_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="delay must be a number of seconds or a timedelta"):
        checks.seconds("delay", value)


@pytest.mark.parametrize("value", [3, 0.5, -1])
def test_a_number_is_finite(value: float) -> None:
    assert checks.number("done", value) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "3", None, 10**400])
def test_what_is_not_a_finite_number_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="done must be a number"):
        checks.number("done", value)


def test_a_moment_is_turned_to_utc() -> None:
    value = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))

    moment = checks.timestamp("run_at", value)

    assert (moment, moment.tzinfo) == (value, UTC)


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="run_at must have a time zone"):
        checks.timestamp("run_at", datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("year", [1, 1969, 2201, 9999])
def test_a_moment_far_away_is_refused(year: int) -> None:
    with pytest.raises(ConfigurationError, match="run_at must be from 1970 to 2200, not"):
        checks.timestamp("run_at", datetime(year, 6, 1, tzinfo=timezone(timedelta(hours=-2))))


def test_a_name_is_plain_text_even_if_it_came_from_an_enumeration() -> None:
    class Queue(StrEnum):
        MAIL = "mail"

    class Level(IntEnum):
        HIGH = 3

    assert type(checks.name("queue", Queue.MAIL)) is str
    assert checks.name("queue", Queue.MAIL) == "mail"
    assert type(checks.integer("priority", Level.HIGH, 0, 9)) is int


def test_a_value_too_large_to_show_is_refused_all_the_same() -> None:
    with pytest.raises(ConfigurationError, match="priority must be 0 to 9, not a very large int"):
        checks.integer("priority", 10**5_000, 0, 9)


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_text_that_no_store_keeps_is_refused_where_it_is_looked_for(value: str) -> None:
    assert checks.storable_text("error", "Timeout") == "Timeout"
    with pytest.raises(ConfigurationError, match="error must be text without NUL or lone surrogates"):
        checks.storable_text("error", value)


@pytest.mark.parametrize("value", ["2026-01-01", 1_700_000_000, None])
def test_what_is_not_a_moment_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="run_at must be a datetime"):
        checks.timestamp("run_at", value)


def test_a_choice_is_one_of_those_allowed() -> None:
    assert checks.choice("on_conflict", "keep", ["keep", "raise"]) == "keep"


def test_another_choice_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="must be 'keep' or 'raise', not 'kepe'; did you mean 'keep'"):
        checks.choice("on_conflict", "kepe", ["keep", "raise"])


def test_text_and_truth_are_what_they_say() -> None:
    assert checks.text("error", "any") == "any"
    assert checks.boolean("due", value=True) is True


@pytest.mark.parametrize("value", [7, "", None, b"x"])
def test_what_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="error must be text, not"):
        checks.text("error", value)


def test_what_is_not_a_truth_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="due must be True or False, not 1"):
        checks.boolean("due", 1)


def test_what_is_optional_may_be_none() -> None:
    assert checks.optional(checks.name, "key", None) is None
    assert checks.optional(checks.name, "key", "k") == "k"


def test_labels_are_copied() -> None:
    given = {"a": "1"}

    assert checks.meta("meta", given) == given
    assert checks.meta("meta", given) is not given


@pytest.mark.parametrize("value", [["a"], "a", {"a": 1}, {1: "a"}, {"": "a"}, {"a": "x\0"}, {"a": "\ud800"}])
def test_labels_that_are_not_text_to_text_are_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="meta"):
        checks.meta("meta", value)


def test_labels_have_a_bound() -> None:
    with pytest.raises(ConfigurationError, match="the limit is 16,384"):
        checks.meta("meta", {"a": "x" * 16_384})


def test_text_is_cleaned_of_what_no_store_keeps() -> None:
    assert checks.replace_unstorable("a\0b\ud800c") == "a\ufffdb?c"


def test_an_error_text_of_allowed_length_is_kept() -> None:
    assert checks.error_text("why", "x" * 16_384) == "x" * 16_384


def test_of_a_long_error_text_the_end_is_kept() -> None:
    text = checks.error_text("why", "ä" * 20_000 + "the reason")

    assert text.startswith("[… cut]\n")
    assert text.endswith("äthe reason")
    assert 16_380 <= len(text.encode()) <= 16_384


def test_an_error_that_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="why must be text, not 7"):
        checks.error_text("why", 7)


def test_an_option_that_does_not_exist_is_refused_with_the_nearest() -> None:
    @checks.reject_unknown_options
    def paint(*, colour: str = "red") -> str:
        return colour

    with pytest.raises(ConfigurationError, match="paint has no option 'color'; did you mean 'colour'"):
        paint(color="blue")  # type: ignore[call-arg]


def test_an_option_that_is_near_to_none_is_refused_with_all_there_are() -> None:
    @checks.reject_unknown_options
    def paint(*, colour: str = "red", width: int = 1) -> str:
        return colour * width

    with pytest.raises(ConfigurationError, match="has no option 'zzz'; the options are colour, width"):
        paint(zzz="blue")  # type: ignore[call-arg]


def test_a_class_refuses_an_option_by_its_own_name() -> None:
    @checks.reject_unknown_fields
    class Paint:
        def __init__(self, *, colour: str = "red") -> None:
            self.colour = colour

    assert Paint(colour="blue").colour == "blue"
    with pytest.raises(ConfigurationError, match="Paint has no option 'color'; did you mean 'colour'"):
        Paint(color="blue")  # type: ignore[call-arg]


def test_options_that_exist_are_passed_on() -> None:
    @checks.reject_unknown_options
    def paint(thing: str, *, colour: str = "red") -> str:
        return f"{colour} {thing}"

    assert paint("door", colour="blue") == "blue door"


def test_where_no_option_exists_none_is_listed() -> None:
    with pytest.raises(ConfigurationError, match=r"'memory://' has no option 'a'$"):
        checks.reject_unknown("'memory://'", {"a": 1}, [])


def test_a_value_that_cannot_show_itself_is_named_by_its_kind() -> None:
    class Detached:
        def __repr__(self) -> str:
            raise RuntimeError("not bound to a session")

    with pytest.raises(ConfigurationError, match="queue must be a string, not a Detached whose repr"):
        checks.name("queue", Detached())
