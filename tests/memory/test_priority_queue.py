"""The priority queue, compared with a sorted list."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.backends.memory.priority_queue import PriorityQueue, pop_in_order

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), st.integers(0, 9)),
        st.tuples(st.just("discard"), st.sampled_from("abcdef"), st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.just(0)),
    ),
    max_size=400,
)


@settings(derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_the_first_is_always_the_smallest_of_what_is_in_the_line(steps: list[tuple[str, str, int]]) -> None:
    line, plain = PriorityQueue(), dict[str, tuple[int, str]]()

    for step, id, number in steps:
        match step:
            case "put":
                line.put((number, id))
                plain[id] = (number, id)
            case "discard":
                line.discard(id)
                plain.pop(id, None)
            case "pop" if line.first() is not None:
                del plain[line.pop()]
        first = line.first()
        assert first == min(plain.values(), default=None)
        assert len(line) == len(plain)
        assert line.count_before((5, "c"), 99) == sum(place < (5, "c") for place in plain.values())


def test_a_line_whose_entries_move_for_ever_does_not_grow() -> None:
    line = PriorityQueue()

    for number in range(10_000):
        line.put((number, "a"))
        line.put((-number, "b"))

    assert len(line._heap) < 200
    assert line.first() == (-9_999, "b")


def test_a_line_that_is_emptied_from_the_back_does_not_grow() -> None:
    line = PriorityQueue()
    line.put((0, "front"))

    for number in range(1, 10_000):
        line.put((number, str(number)))
        line.discard(str(number))

    assert len(line._heap) < 200
    assert len(line) == 1


def test_no_more_is_counted_in_a_line_than_was_asked_for() -> None:
    line = PriorityQueue()
    for number in range(100):
        line.put((number, str(number)))

    assert line.count_before((50, ""), 7) == 7
    assert line.count_before((50, ""), 0) == 0


def lines_of(*numbers: int) -> list[PriorityQueue]:
    """Return three queues that share these numbers."""
    lines = [PriorityQueue() for _ in range(3)]
    for number in numbers:
        lines[number % 3].put((number, str(number)))
    return lines


def test_several_lines_are_emptied_in_one_order() -> None:
    lines = lines_of(5, 3, 8, 1, 9, 2)

    assert pop_in_order(lines, 10) == ["1", "2", "3", "5", "8", "9"]
    assert pop_in_order(lines, 10) == []


def test_no_more_is_taken_out_of_lines_than_was_asked_for() -> None:
    lines = lines_of(5, 3, 8, 1, 9, 2)

    assert pop_in_order(lines, 2) == ["1", "2"]
    assert pop_in_order(lines, 10, until=5) == ["3", "5"]
    assert sum(map(len, lines)) == 2
