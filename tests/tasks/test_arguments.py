"""Arguments and results of functions, encoded and decoded."""

import functools
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, Generic
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure import Cancel, Fail, Retry, Snooze
from tenure.core.payload import decode, encode_payload
from tenure.errors import ConfigurationError, InvalidPayload
from tenure.tasks.arguments import Arguments
from tests.tasks.kinds import DAY, ID, MOMENT, Color, Level, Order, Place, Point, Struct, T
from tests.tasks.texts import report


def send(message_id: int, to: str, *, copies: int = 1, note: str | None = None) -> str:
    return f"{message_id} {to} {copies} {note}"


def remind(day: date, order: Order | None = None, colors: frozenset[Color] = frozenset()) -> date:
    return order.placed_at.date() if order and not colors else day


SEND = Arguments(send, "send")
REMIND = Arguments(remind, "remind")


def test_arguments_are_stored_by_name_and_defaults_are_not() -> None:
    payload = SEND.encode_call((7, "ada@example.org"), {})

    assert payload == {"message_id": 7, "to": "ada@example.org"}


def test_arguments_may_be_given_by_name_in_any_order() -> None:
    payload = SEND.encode_call((7,), {"note": None, "to": "ada"})

    assert payload == {"message_id": 7, "to": "ada", "note": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((), {}, r"^send\(message_id: int, to: str, \*, copies.* needs the argument 'message_id'$"),
        ((7,), {"copies": 2}, "needs the argument 'to'"),
        ((7, "ada", 3), {}, r"^too many positional arguments for send\(.*: 3$"),
        ((7, "ada"), {"to": "bob"}, r"^send\(.* got argument 'to' twice"),
        ((7, "ada"), {"copy": 2}, "has no argument 'copy'; did you mean 'copies'"),
        ((7, "ada"), {"x": 2}, "has no argument 'x'$"),
    ],
)
def test_a_call_that_the_function_would_refuse_is_refused(args: Any, kwargs: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        SEND.encode_call(args, kwargs)


def test_a_payload_of_plain_values_is_itself_the_keyword_arguments() -> None:
    payload = {"message_id": 7, "to": "ada"}

    assert SEND.decode_call(payload) is payload


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"message_id": 7}, r"the payload lacks 'to' of send\(.*give a new parameter a default while stored jobs"),
        (
            {"message_id": 7, "to": "ada", "cc": "bob"},
            r"the payload has 'cc', but send\(.* has no such parameter; keep",
        ),
    ],
)
def test_a_payload_that_does_not_fit_the_function_is_refused(payload: Any, reason: str) -> None:
    with pytest.raises(InvalidPayload, match=reason):
        SEND.decode_call(payload)


def test_annotated_values_are_written_as_json_and_come_back() -> None:
    payload = REMIND.encode_call((DAY,), {"colors": frozenset({Color.RED})})

    assert payload == {"day": "2024-02-29", "colors": ["red"]}
    assert REMIND.decode_call(payload) == {"day": DAY, "colors": frozenset({Color.RED})}
    assert payload == {"day": "2024-02-29", "colors": ["red"]}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [("{", "Expecting property name"), ([], "it is not a JSON object"), (None, "Expecting value")],
)
def test_a_payload_that_is_no_object_fails_the_job_for_good(payload: Any, reason: str) -> None:
    with pytest.raises(Fail, match=f"the payload cannot be read: {reason}"):
        REMIND.decode_call(payload)


def test_a_value_that_does_not_fit_its_annotation_is_not_stored() -> None:
    reason = r"argument 'day' of remind is annotated date, but the value is 'soon': 'soon' is not date"

    with pytest.raises(InvalidPayload, match=reason):
        REMIND.encode_call(("soon",), {})


def test_a_value_inside_another_is_named_when_it_does_not_fit() -> None:
    order = Order(ID, MOMENT, Point(1), ["none"])  # type: ignore[list-item]

    with pytest.raises(InvalidPayload, match=r"'order' of remind is annotated .*Order.*: 'none' is not Order"):
        REMIND.encode_call((DAY, order), {})


def test_a_stored_value_that_does_not_fit_its_annotation_is_named() -> None:
    with pytest.raises(
        InvalidPayload, match="the payload's 'day' of remind is annotated date, but the value is 'soon'"
    ):
        REMIND.decode_call({"day": "soon"})


def test_a_value_that_holds_itself_is_refused() -> None:
    order = Order(ID, MOMENT)
    order.lines.append(order)

    with pytest.raises(InvalidPayload, match="recursion"):
        REMIND.encode_call((DAY, order), {})


def test_what_a_class_raises_when_it_is_read_is_an_invalid_payload() -> None:
    arguments = Arguments(positive, "positive")

    with pytest.raises(InvalidPayload, match=r"the payload's 'amount' of positive .*: division by zero") as caught:
        arguments.decode_call({"amount": {"number": 0}})

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@dataclass
class Amount:
    number: int

    def __post_init__(self) -> None:
        1 / self.number


def positive(amount: Amount) -> None:
    pass


def test_the_result_is_written_by_the_annotation_of_what_is_returned() -> None:
    assert not REMIND.result_is_plain
    assert REMIND.encode_result(DAY) == "2024-02-29"
    assert REMIND.decode_result("2024-02-29") == DAY
    with pytest.raises(InvalidPayload, match="the result of remind is annotated date, but the value is 'soon'"):
        REMIND.encode_result("soon")


def test_a_plain_result_is_left_as_it_is() -> None:
    result = ["a"]

    assert SEND.result_is_plain
    assert SEND.encode_result(result) is result
    assert SEND.decode_result(result) is result


def test_the_result_of_a_coroutine_is_what_it_returns() -> None:
    async def later() -> date:
        return DAY

    def made() -> Coroutine[Any, Any, date]:
        return later()

    def awaited() -> Awaitable[date]:
        return later()

    assert all(Arguments(each, "t").encode_result(DAY) == "2024-02-29" for each in (later, made, awaited))


def test_answers_are_no_results() -> None:
    def sometimes() -> date | Retry | Snooze | Fail | Cancel:
        return DAY

    def never() -> Retry:
        return Retry()

    def either() -> Retry | Fail:
        return Retry()

    assert Arguments(sometimes, "sometimes").encode_result(DAY) == "2024-02-29"
    assert Arguments(never, "never").result_is_plain
    assert Arguments(either, "either").result_is_plain


def several(*numbers: int) -> None: ...
def anything(**options: int) -> None: ...
def unnamed(number: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (several, r"a task needs named parameters, but t\(.* has '\*numbers: int'; use a list parameter instead"),
        (anything, r"'\*\*options: int'; use a dict parameter instead"),
        (unnamed, "'number: int'; remove the `/`"),
        (7, "task 't' must be a function with a signature: 7 is not a callable object"),
    ],
)
def test_a_function_whose_arguments_have_no_names_is_refused(function: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Arguments(function, "t")


def test_an_annotation_that_cannot_be_written_is_refused_at_once_with_what_is_allowed() -> None:
    def save(sessions: list[Arguments]) -> None: ...

    def load() -> Arguments: ...  # type: ignore[empty-body]

    with pytest.raises(
        ConfigurationError, match=r"parameter 'sessions' of save is annotated .*: Arguments .* use plain"
    ):
        Arguments(save, "save")
    with pytest.raises(ConfigurationError, match="the result of load is annotated Arguments"):
        Arguments(load, "load")


@dataclass
class Growing(Generic[T]):
    content: T
    inner: "Growing[list[T]] | None" = None


def test_a_class_that_holds_ever_new_kinds_of_itself_is_refused() -> None:
    def save(item: Growing[int]) -> None: ...

    with pytest.raises(ConfigurationError, match=r"parameter 'item' of save .* a type that expands without end"):
        Arguments(save, "save")


def test_text_that_is_no_annotation_is_refused() -> None:
    def save(when: "not an annotation") -> None: ...  # type: ignore[valid-type]  # noqa: F722 - what is tested

    with pytest.raises(ConfigurationError, match="the annotations of save are invalid"):
        Arguments(save, "save")


def ahead(item: "Ahead | None" = None) -> "Ahead": ...  # type: ignore[empty-body]


AHEAD = Arguments(ahead, "ahead")
AHEAD_WAS_PLAIN = AHEAD.result_is_plain


@dataclass
class Ahead:
    day: date


def test_a_name_that_is_defined_later_is_looked_up_when_it_is_needed() -> None:
    assert not AHEAD_WAS_PLAIN
    assert AHEAD.encode_call((Ahead(DAY),), {}) == {"item": {"day": "2024-02-29"}}
    assert AHEAD.decode_result({"day": "2024-02-29"}) == Ahead(DAY)


@dataclass
class Lost:
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - what is tested


def test_a_name_that_is_never_defined_is_an_error_when_it_is_needed() -> None:
    def save(item: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - what is tested

    def find(item: Lost) -> None: ...

    reason = r"cannot resolve the annotations of t\(.*: name 'Nowhere' is not defined; define or import it"
    uses: list[Callable[[Arguments], Any]] = [
        lambda arguments: arguments.resolve(),
        lambda arguments: arguments.encode_call((1,), {}),
        lambda arguments: arguments.decode_call({"item": 1}),
        lambda arguments: arguments.encode_result(None),
        lambda arguments: arguments.decode_result(None),
    ]

    for function in (save, find):
        for use in uses:
            with pytest.raises(ConfigurationError, match=reason):
                use(Arguments(function, "t"))


def test_annotations_that_are_text_are_looked_up_where_they_stand() -> None:
    arguments = Arguments(report, "report")

    assert arguments.encode_call(({"since": DAY},), {"day": DAY}) == {
        "options": {"since": "2024-02-29"},
        "day": "2024-02-29",
    }


def test_a_function_without_annotations_takes_plain_values() -> None:
    arguments = Arguments(lambda a, b=1: (a, b), "t")

    assert arguments.encode_call((1,), {"b": [2]}) == {"a": 1, "b": [2]}
    assert arguments.result_is_plain


def test_a_wrapped_partial_or_callable_object_has_the_annotations_of_what_is_called() -> None:
    class Sender:
        def __call__(self, day: date) -> None: ...

        def send(self, day: date) -> None: ...

    @functools.wraps(remind)
    def wrapped(*args: Any, **kwargs: Any) -> Any: ...

    called: list[Callable[..., Any]] = [wrapped, functools.partial(remind, order=None), Sender(), Sender().send]

    assert all(Arguments(each, "t").encode_call((DAY,), {}) == {"day": "2024-02-29"} for each in called)


def everything(
    moment: datetime,
    day: date,
    at: time,
    length: timedelta,
    id: UUID,
    amount: Decimal,
    content: bytes,
    path: PurePosixPath,
    level: Level | None,
    place: Place,
    pairs: set[tuple[int, Color]],
    days: dict[date, list[Order]],
    struct: Struct,
    choice: UUID | float | dict[int, bytes],
    plain: dict[str, Any],
) -> None: ...


EVERYTHING = Arguments(everything, "everything")
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(timezones=st.none() | st.timezones() | st.just(UTC), allow_imaginary=False)
ORDERS = st.builds(
    Order, st.uuids(), st.datetimes(), st.none() | st.builds(Point, st.integers()), color=st.sampled_from(Color)
)


def is_clear(moment: datetime) -> bool:
    """Return whether a datetime compares with other time zones: a repeated wall time equals none."""
    return moment.fold == 0 and moment.utcoffset() == moment.replace(fold=1).utcoffset()


# No test of the duration: other runs may share the machine.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    arguments=st.fixed_dictionaries(
        {
            "moment": MOMENTS.filter(is_clear),
            "day": st.dates(),
            "at": st.times(),
            "length": st.timedeltas(timedelta(days=-50_000), timedelta(days=50_000)),
            "id": st.uuids(),
            "amount": st.decimals(allow_nan=False),
            "content": st.binary(),
            "path": TEXT.map(PurePosixPath),
            "level": st.none() | st.sampled_from(Level),
            "place": st.builds(Place, st.dates(), TEXT),
            "pairs": st.sets(st.tuples(st.integers(), st.sampled_from(Color))),
            "days": st.dictionaries(st.dates(), st.lists(ORDERS, max_size=2), max_size=2),
            "struct": st.builds(Struct, st.dates(), st.dictionaries(st.integers(-(2**60), 2**60), st.binary())),
            "choice": st.uuids() | NUMBERS | st.dictionaries(st.integers(), st.binary()),
            "plain": st.dictionaries(TEXT, st.none() | st.booleans() | NUMBERS | TEXT | st.lists(st.integers())),
        }
    )
)
def test_what_is_stored_comes_back_as_equal_arguments(arguments: dict[str, Any]) -> None:
    payload = EVERYTHING.encode_call((), arguments)

    assert EVERYTHING.decode_call(decode(encode_payload(payload))) == arguments


def test_plain_annotations_import_nothing_that_others_need() -> None:
    code = """
import sys
from tenure.tasks.arguments import Arguments
def send(a: int, b: list[str] | None = None) -> dict[str, object]: ...
Arguments(send, "send")
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert {"decimal", "uuid", "pathlib", "msgspec", "pydantic"}.isdisjoint(loaded)
