"""The JSON of each annotation."""

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import CONFORM, EJECT, KEEP, Enum, Flag, IntFlag
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from typing_extensions import TypeAliasType

from tenure.errors import ConfigurationError
from tenure.tasks.codecs.codec import Codec, ValueMismatch
from tenure.tasks.values import codec_of
from tests.tasks.kinds import (
    DAY,
    ID,
    MOMENT,
    PLAIN,
    WRITTEN,
    Box,
    Checked,
    Color,
    Level,
    Model,
    Numbers,
    Options,
    Order,
    Place,
    Point,
    Right,
    Struct,
    T,
    Tree,
    Unequal,
)
from tests.tasks.texts import TextOptions


def found(annotation: Any) -> Codec:
    codec = codec_of(annotation)
    assert codec is not None
    return codec


@pytest.mark.parametrize(("annotation", "value", "written"), WRITTEN, ids=lambda part: repr(part)[:40])
def test_a_value_is_written_as_documented_and_comes_back_equal(annotation: Any, value: Any, written: Any) -> None:
    codec = found(annotation)

    text = json.dumps(codec.encode(value))

    assert json.loads(text) == written
    assert codec.decode(json.loads(text)) == value
    assert type(codec.decode(json.loads(text))) is type(value)


@pytest.mark.parametrize("annotation", PLAIN, ids=repr)
def test_what_json_has_a_type_for_needs_no_codec(annotation: Any) -> None:
    assert codec_of(annotation) is None


def test_a_dataclass_may_hold_its_own_kind_and_leave_defaults_out() -> None:
    codec = found(Order)
    order = Order(ID, MOMENT, Point(1), [Order(ID, MOMENT, color=Color.BLUE)])

    written = json.loads(json.dumps(codec.encode(order)))

    assert written["lines"][0] == {
        "id": str(ID),
        "placed_at": MOMENT.isoformat(),
        "at": None,
        "lines": [],
        "color": "blue",
    }
    assert codec.decode(written) == order
    assert codec.decode({"id": str(ID), "placed_at": "2024-02-29T12:30:00.000005Z"}) == Order(ID, MOMENT)


def test_a_dataclass_without_equality_comes_back_with_the_same_fields() -> None:
    codec = found(Unequal)

    assert codec.decode(codec.encode(Unequal(DAY))).day == DAY


@pytest.mark.parametrize("value", [5, Decimal(5)])
def test_a_decimal_may_be_given_as_a_whole_number(value: Any) -> None:
    codec = found(Decimal)

    assert codec.encode(value) == "5"
    assert codec.decode(5) == Decimal(5)


def test_a_moment_keeps_its_instant_in_the_hour_that_is_repeated() -> None:
    codec = found(datetime)
    moment = datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))

    assert codec.decode(codec.encode(moment)).timestamp() == moment.timestamp()


def test_a_moment_of_a_class_of_its_own_is_a_moment() -> None:
    class Moment(datetime):
        pass

    codec = found(datetime)

    assert codec.decode(codec.encode(Moment(2024, 1, 1, tzinfo=UTC))) == datetime(2024, 1, 1, tzinfo=UTC)


def test_a_tuple_is_as_good_as_a_list_where_any_sequence_is() -> None:
    codec = found(Sequence[date])

    assert codec.decode(codec.encode((DAY,))) == [DAY]


class Derived(Order):
    pass


@dataclass
class Doubled:
    number: int
    made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.number *= 2


class Secret(pydantic.BaseModel):
    word: pydantic.SecretStr


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (date, MOMENT),
        (date, "2024-02-29"),
        (datetime, DAY),
        (time, time(1, tzinfo=ZoneInfo("Europe/Berlin"))),
        (timedelta, 5),
        (timedelta, timedelta(days=200_000, microseconds=1)),
        (UUID, str(ID)),
        (Decimal, 1.5),
        (Decimal, True),
        (Decimal, Decimal("NaN")),
        (bytes, "text"),
        (bytes, bytearray(b"x")),
        (Path, "a"),
        (Path, PurePosixPath("a")),
        (Color, "red"),
        (Level, 1),
        (Right, 1),
        (Point, {"x": 1}),
        (Order, Derived(ID, MOMENT)),
        (Doubled, Doubled(1)),
        (Place, (DAY, "here")),
        (Options, {}),
        (Options, {"since": DAY, "until": DAY}),
        (Options, [DAY]),
        (Struct, Point(1)),
        (Secret, Secret(word=pydantic.SecretStr("x"))),
        (list[date], (DAY,)),
        (list[date], [DAY, None]),
        (list[date], None),
        (Sequence[date], {DAY}),
        (tuple[int, int], (1,)),
        (tuple[int, int], [1, 2]),
        (set[Any], {(1, 2)}),
        (set[Sequence[date]], {(DAY,)}),
        (set[int], [1]),
        (dict[int, int], {True: 1}),
        (dict[int, int], {"1": 1}),
        (dict[int, int], [(1, 1)]),
        (dict[str, date], {"a": None}),
        (date | int, "2024-02-29"),
        (date | dict[str, date], [DAY]),
        (date | None, 0),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_a_value_that_would_not_come_back_equal_is_not_written(annotation: Any, value: Any) -> None:
    codec = found(annotation)

    with pytest.raises(ValueMismatch):
        codec.encode(value)


class Lenient(Flag, boundary=CONFORM):
    READ = 1


class Ejecting(IntFlag, boundary=EJECT):
    READ = 1


class Keeping(Flag, boundary=KEEP):
    READ = 1
    BOTH = 6


@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        (date, 5),
        (date, "soon"),
        (UUID, None),
        (UUID, "x"),
        (Decimal, 1.5),
        (Decimal, True),
        (timedelta, "5"),
        (timedelta, True),
        (bytes, "a b"),
        (Color, "green"),
        (Color, ["red"]),
        (Level, True),
        (Level, 1.0),
        (Level, 3),
        (Right, 8),
        (Right, 9),
        (Right, -1),
        (Right, True),
        (Lenient, 8),
        (Ejecting, 8),
        (Keeping, -1),
        (Point, [1, 2]),
        (Point, {"y": 1}),
        (Point, {"x": 1, "z": 1}),
        (Options, {"limit": 1}),
        (Struct, {}),
        (Model, {"day": "2024-02-29"}),
        (Numbers, ["x"]),
        (Checked, {"day": "soon"}),
        (list[date], "2024-02-29"),
        (tuple[int, int], [1]),
        (tuple[date, ...], {}),
        (set[int], 1),
        (set[Any], [[1]]),
        (dict[int, int], {"01": 1}),
        (dict[int, int], {"x": 1}),
        (dict[int, int], []),
        (dict[UUID, int], {str(ID): 1, ID.hex: 2}),
        (date | int, [1]),
        (date | None, 1),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_json_that_stands_for_no_value_is_not_read(annotation: Any, written: Any) -> None:
    codec = found(annotation)

    with pytest.raises((ValueError, TypeError)):
        codec.decode(written)


class Session:
    pass


class Mixed(Enum):
    DAY = DAY
    TEXT = "2024-02-29"


class Opaque(Enum):
    ITEM = ()


class Gapped(Flag):
    ONE = 1
    BOTH = 6


class Empty(Enum):
    pass


@dataclass
class WithInit:
    number: InitVar[int]


@dataclass(init=False)
class OwnConstructor:
    number: int

    def __init__(self, text: str) -> None:
        self.number = int(text)


REFUSED: list[tuple[Any, str]] = [
    (Session, "^Session cannot be written as JSON; use plain JSON values, datetime, "),
    (list[Session], "^Session cannot be written"),
    (dict[str, Session], "^Session cannot be written"),
    (Box[Session], "^Session cannot be written"),
    (complex, "complex"),
    (type[int], "type"),
    (Callable[[], None], "Callable"),
    (Generator[int, None, None], "Generator"),
    ({"not": "hashable"}, "{'not': 'hashable'} cannot"),
    (tuple[int, *tuple[str, ...]], r"\*tuple\[str, \.\.\.\] cannot be written"),
    (7, "^7 cannot be written"),
    (Mixed, "members of Mixed do not have distinct JSON values"),
    (Opaque, r"Opaque\.ITEM has a value that cannot be written as JSON; give its members strings or numbers"),
    (Gapped, r"Gapped\.BOTH has the value 6, with bits that have no member; add a member for each bit"),
    (Empty, "members of Empty"),
    (WithInit, "WithInit cannot be built from its fields.*without InitVar"),
    (OwnConstructor, "OwnConstructor cannot be built from its fields"),
    (dict[float, date], "float cannot be the key of a JSON object; use str, int, UUID, a date or an Enum"),
    (dict[bool, int], "bool cannot be the key"),
    (dict[tuple[int, int], int], "cannot be the key"),
    (datetime | str, "datetime and str are ambiguous in a union: both can be a string in JSON"),
    (Point | Order, "both can be an object"),
    (Level | float, "both can be a number"),
    (UUID | Any, "UUID and Any are ambiguous"),
    (Decimal | int, "both can be a number"),
    (Numbers | None, "both can be null"),
]


@pytest.mark.parametrize(("annotation", "reason"), REFUSED, ids=lambda part: repr(part)[:40])
def test_what_cannot_be_written_so_that_it_is_read_back_is_refused(annotation: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        codec_of(annotation)


@pytest.mark.parametrize("value", [Right(0), Right.READ | Right.WRITE, Keeping.BOTH, Keeping(9)], ids=repr)
def test_a_flag_is_written_as_its_number_and_comes_back_with_the_same_bits(value: Flag) -> None:
    codec = found(type(value))

    assert codec.encode(value) == value.value
    assert codec.decode(value.value).value == value.value


def test_a_value_that_holds_itself_is_an_error_that_can_be_caught() -> None:
    tree: dict[str, Any] = {}
    tree["children"] = [tree]

    with pytest.raises(RecursionError):
        found(Tree).encode(tree)


def test_a_class_in_a_function_may_hold_its_own_kind() -> None:
    @dataclass
    class Node:
        day: date
        next: "Node | None" = None

    codec = found(Node)

    assert codec.decode(codec.encode(Node(DAY, Node(DAY)))) == Node(DAY, Node(DAY))


def test_which_keys_are_needed_is_known_though_the_annotations_are_text() -> None:
    codec = found(TextOptions)

    assert codec.decode({"since": "2024-02-29"}) == {"since": DAY}


def test_an_array_like_struct_is_an_array() -> None:
    class Row(msgspec.Struct, array_like=True):
        day: date

    codec = found(Row | dict[str, date])

    assert codec.encode(Row(DAY)) == ["2024-02-29"]
    assert codec.decode(["2024-02-29"]) == Row(DAY)


def test_an_alias_stands_for_what_it_names() -> None:
    several = TypeAliasType("several", list[T], type_params=(T,))

    assert codec_of(several[int]) is None
    assert found(several[date]).encode([DAY]) == ["2024-02-29"]
