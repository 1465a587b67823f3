"""The line, against a sorted list."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.backends.memory.line import Line, in_order

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), st.integers(0, 9)),
        st.tuples(st.just("discard"), st.sampled_from("abcdef"), st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.just(0)),
    ),
    max_size=400,
)


@settings(derandomize=True, database=None, deadline=None)
@given(steps)
def test_the_first_is_always_the_smallest_of_what_is_in_the_line(steps: list[tuple[str, str, int]]) -> None:
    line, plain = Line(), dict[str, tuple[int, str]]()

    for step, id, number in steps:
        match step:
            case "put":
                line.put(id, (number, id))
                plain[id] = (number, id)
            case "discard":
                line.discard(id)
                plain.pop(id, None)
            case "pop" if line.first() is not None:
                del plain[line.pop()]
        first = line.first()
        assert (first[0] if first else None) == min(plain.values(), default=None)
        assert len(line) == len(plain)


def test_a_line_whose_entries_move_for_ever_does_not_grow() -> None:
    line = Line()

    for number in range(10_000):
        line.put("a", (number,))
        line.put("b", (-number,))

    assert len(line._heap) < 200
    assert line.first() == ((-9_999,), "b")


def test_a_line_that_is_emptied_from_the_back_does_not_grow() -> None:
    line = Line()
    line.put("front", (0,))

    for number in range(1, 10_000):
        line.put(str(number), (number,))
        line.discard(str(number))

    assert len(line._heap) < 200
    assert len(line) == 1


def test_several_lines_are_read_in_one_order() -> None:
    lines = [Line() for _ in range(3)]
    for number in [5, 3, 8, 1, 9, 2]:
        lines[number % 3].put(str(number), (number,))

    assert [id for _, id in in_order(lines)] == ["1", "2", "3", "5", "8", "9"]
