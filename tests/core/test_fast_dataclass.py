"""The fast constructor builds the same values."""

import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from tenure.core.fast_dataclass import fast_constructor


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    y: int = 0
    marks: dict[str, int] = field(default_factory=dict, hash=False)


build_point = fast_constructor(Point)


def test_a_quickly_built_value_is_equal_in_every_way() -> None:
    quick, plain = build_point(1, 2, {"a": 3}), Point(x=1, y=2, marks={"a": 3})

    assert type(quick) is Point
    assert (quick, hash(quick), repr(quick)) == (plain, hash(plain), repr(plain))
    assert pickle.loads(pickle.dumps(quick)) == plain  # noqa: S301
    assert replace(quick, x=5) == replace(plain, x=5)


def test_a_quickly_built_value_has_the_same_defaults() -> None:
    first, second = build_point(1), build_point(1)

    assert first == second == Point(x=1)
    assert first.marks is not second.marks


def test_a_quickly_built_value_is_frozen() -> None:
    point = build_point(1)

    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]


def test_a_quickly_built_value_takes_its_fields_in_their_order_and_no_others() -> None:
    with pytest.raises(TypeError):
        build_point(1, 2, {}, 3)
    with pytest.raises(TypeError):
        build_point(1, z=2)
    with pytest.raises(TypeError):
        build_point()
