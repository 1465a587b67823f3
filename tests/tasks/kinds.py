"""Classes used as annotations by the tests, and their JSON."""

from collections import deque, namedtuple
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum, auto
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pydantic.dataclasses

T = TypeVar("T")
MessageId = NewType("MessageId", UUID)
Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024 - without annotations


class Color(StrEnum):
    RED = "red"
    ROUGE = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Holiday(Enum):
    NEW_YEAR = date(2024, 1, 1)
    CHRISTMAS = date(2024, 12, 25)


class Right(Flag):
    READ = auto()
    WRITE = auto()


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclass
class Order:
    id: UUID
    placed_at: datetime
    at: Point | None = None
    lines: list["Order"] = field(default_factory=list)
    _: KW_ONLY
    color: Color = Color.RED
    total: Decimal = field(init=False, default=Decimal(0))


@dataclass(eq=False)
class Unequal:
    day: date


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)


class Place(NamedTuple):
    day: date
    name: str = "here"


class Options(TypedDict):
    since: date
    limit: NotRequired[int]


class PlainOptions(TypedDict, total=False):
    limit: int


class Tree(TypedDict):
    children: "list[Tree]"


class Struct(msgspec.Struct):
    day: date
    counts: dict[int, bytes] = {}


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    day: date = pydantic.Field(alias="theDay")
    pair: tuple[int, int] = (1, 2)

    @pydantic.computed_field
    def year(self) -> int:
        return self.day.year


class Numbers(pydantic.RootModel[list[int]]):
    pass


@pydantic.dataclasses.dataclass
class Checked:
    day: date


ID = UUID("12345678-1234-5678-1234-567812345678")
DAY = date(2024, 2, 29)
MOMENT = datetime(2024, 2, 29, 12, 30, 0, 5, tzinfo=UTC)
EAST = timezone(timedelta(hours=5, minutes=30))

WRITTEN: list[tuple[Any, Any, Any]] = [
    (datetime, MOMENT, "2024-02-29T12:30:00.000005+00:00"),
    (datetime, datetime(2024, 1, 1), "2024-01-01T00:00:00"),  # noqa: DTZ001 - without a time zone
    (datetime, datetime(2024, 1, 1, tzinfo=EAST), "2024-01-01T00:00:00+05:30"),
    (date, DAY, "2024-02-29"),
    (time, time(12, 30), "12:30:00"),
    (time, time(12, 30, tzinfo=EAST), "12:30:00+05:30"),
    (timedelta, timedelta(minutes=1), 60),
    (timedelta, timedelta(milliseconds=1500), 1.5),
    (UUID, ID, str(ID)),
    (Decimal, Decimal("1.10"), "1.10"),
    (bytes, b"\xff\x00", "/wA="),
    (Path, Path("a/b"), "a/b"),
    (PurePosixPath, PurePosixPath("/a"), "/a"),
    (Color, Color.ROUGE, "red"),
    (Level, Level.HIGH, 2),
    (Holiday, Holiday.CHRISTMAS, "2024-12-25"),
    (Right, Right.READ | Right.WRITE, 3),
    (Point, Point(1, 2), {"x": 1, "y": 2}),
    (Unequal | None, None, None),
    (Box[date], Box(DAY, [DAY]), {"content": "2024-02-29", "more": ["2024-02-29"]}),
    (Box, Box(1), {"content": 1, "more": []}),
    (Place, Place(DAY), {"day": "2024-02-29", "name": "here"}),
    (Pair, Pair(1, "a"), {"left": 1, "right": "a"}),
    (Options, {"since": DAY}, {"since": "2024-02-29"}),
    (Tree, {"children": [{"children": []}]}, {"children": [{"children": []}]}),
    (Struct, Struct(DAY, {1: b"x"}), {"day": "2024-02-29", "counts": {"1": "eA=="}}),
    (Model, Model(theDay=DAY), {"theDay": "2024-02-29", "pair": [1, 2]}),
    (Numbers, Numbers([1, 2]), [1, 2]),
    (Checked, Checked(DAY), {"day": "2024-02-29"}),
    (list[date], [DAY], ["2024-02-29"]),
    (Sequence[date], [DAY], ["2024-02-29"]),
    (Iterable[date], [DAY], ["2024-02-29"]),
    (deque[date], deque([DAY]), ["2024-02-29"]),
    (tuple, (1, 2), [1, 2]),
    (tuple[()], (), []),
    (tuple[int, date], (1, DAY), [1, "2024-02-29"]),
    (tuple[date, ...], (DAY, DAY), ["2024-02-29", "2024-02-29"]),
    (set[int], {7}, [7]),
    (set[tuple[int, str]], {(7, "a")}, [[7, "a"]]),
    (frozenset[date], frozenset({DAY}), ["2024-02-29"]),
    (AbstractSet[int], frozenset({7}), [7]),
    (dict[str, date], {"a": DAY}, {"a": "2024-02-29"}),
    (dict[int, int], {-7: 1}, {"-7": 1}),
    (Mapping[UUID, int], {ID: 1}, {str(ID): 1}),
    (dict[Color, int], {Color.BLUE: 1}, {"blue": 1}),
    (dict[Level, int], {Level.LOW: 1}, {"1": 1}),
    (dict[date, list[date]], {DAY: [DAY]}, {"2024-02-29": ["2024-02-29"]}),
    (date | None, None, None),
    (date | None, DAY, "2024-02-29"),
    (date | int | list[int] | None, [1], [1]),
    (date | int | dict[str, date], {"a": DAY}, {"a": "2024-02-29"}),
    (Literal[Color.RED], Color.RED, "red"),
    (Annotated[date, "a day"], DAY, "2024-02-29"),
    (MessageId, MessageId(ID), str(ID)),
]
"""Annotation, value and JSON."""

PLAIN: list[Any] = [
    None,
    bool,
    int,
    float,
    str,
    Any,
    object,
    T,
    list,
    dict,
    list[int],
    Sequence[str],
    dict[str, int],
    Mapping[str, Any],
    list[dict[str, list[int]]],
    int | str | None,
    Literal["a", 1],
    NewType("Name", str),
    Annotated[int, "positive"],
    PlainOptions,
    dict[Literal["a", "b"], int],
]
"""Annotations of values that are JSON already."""
