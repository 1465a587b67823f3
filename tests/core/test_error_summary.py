"""Summarise an exception in one line."""

import traceback

import pytest

from tenure.core.error_summary import MAX_LENGTH, summarize_error, summarize_exception


class Odd(Exception):  # noqa: N818 - only for this test
    def __str__(self) -> str:
        raise RuntimeError


def raise_it(error: Exception) -> None:
    raise error


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise_it(error)
    return caught.value


def noted() -> Exception:
    error = raised(ValueError("no luck"))
    error.add_note("(Background on this error at: nowhere)")
    return error


def chained() -> Exception:
    error = raised(ValueError("no luck"))
    error.__cause__ = raised(KeyError("before"))
    return error


@pytest.mark.parametrize(
    "error",
    [
        raised(ValueError("no luck")),
        raised(ValueError("no luck\nFor further information visit nowhere")),
        noted(),
        chained(),
        raised(ExceptionGroup("no luck", [raised(KeyError("a")), raised(KeyError("b"))])),
    ],
    ids=["plain", "several lines", "with a note", "with a cause", "a group"],
)
def test_the_headline_names_the_kind_and_the_first_thing_said(error: BaseException) -> None:
    stored = "".join(traceback.format_exception(error))

    assert summarize_exception(error).startswith(f"{type(error).__name__}: no luck")
    assert "no luck" in summarize_error(stored) or isinstance(error, ExceptionGroup)
    assert "\n" not in summarize_exception(error) + summarize_error(stored)


def test_a_reason_without_a_traceback_is_its_last_line() -> None:
    assert summarize_error("the file is empty") == "the file is empty"
    assert summarize_error("first\n\nlast\n") == "last"
    assert summarize_error(" \n") == "no reason given"


def test_what_says_nothing_is_named_by_its_kind() -> None:
    assert summarize_exception(ValueError()) == "ValueError"
    assert summarize_exception(Odd()) == "Odd"


def test_a_long_headline_is_cut() -> None:
    assert len(summarize_exception(ValueError("x" * 10_000))) == len(summarize_error("x" * 10_000)) == MAX_LENGTH + 1
