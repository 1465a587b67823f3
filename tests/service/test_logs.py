"""The log formats: human and JSON."""

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

import tenure.testing
from tenure.errors import ConfigurationError
from tenure.service.logs import configure, set_worker, uses_colour

log = logging.getLogger("app")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Sullen:
    """A value whose `str` raises."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    """Restore the handlers and level of the root logger after the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def no_wish_for_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def written(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def unheard() -> logging.Logger:
    """Return a logger with only our handler: the pytest handler raises for malformed records."""
    logger = logging.Logger("app")  # noqa: LOG001 - without a parent
    logger.addHandler(logging.getLogger().handlers[-1])
    return logger


def objects(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not valid JSON")

    return [json.loads(line, parse_constant=refuse) for line in written(capsys).splitlines()]


def test_a_line_for_people_has_time_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure()

    log.warning("the %s is late", "train")

    assert re.fullmatch(r"\d\d:\d\d:\d\d WARNING the train is late\n", written(capsys))


def test_a_line_for_people_tells_the_facts_that_its_message_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    known = {"job": "j7", "type": "send", "queue": "mail", "attempt": 1, "fence": 3, "worker": "w1"}
    configure()

    log.warning("job j7 (send) failed, attempt 1 of 5", extra=known)
    log.info("sending", extra=known)

    first, second = written(capsys).splitlines()
    assert first.endswith(" WARNING job j7 (send) failed, attempt 1 of 5  fence=3 worker=w1")
    assert second.endswith(" INFO    sending  job=j7 type=send attempt=1 fence=3 worker=w1")


def test_a_traceback_is_below_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure()

    log.error("it failed", exc_info=ValueError("no luck"))

    first, *below = written(capsys).splitlines()
    assert first.endswith(" ERROR   it failed")
    assert below == ["    ValueError: no luck"]


def test_no_text_passes_for_a_line_of_its_own_or_moves_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure()

    log.error("bad name\n12:00:00 INFO    all is well\r\033[2J", extra={"job": "a\nb"})

    first, second = written(capsys).splitlines()
    assert first.endswith(" ERROR   bad name  job=a\\x0ab")
    assert second == "    12:00:00 INFO    all is well\\x0d\\x1b[2J"


def test_levels_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    configure()

    log.error("it failed", extra={"fence": 3})

    assert terminal.getvalue()[9:] == "\033[31mERROR  \033[0m it failed  \033[2mfence=3\033[0m\n"


@pytest.mark.parametrize(
    ("environment", "stream", "is_coloured"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"FORCE_COLOR": "1"}, io.StringIO(), True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, io.StringIO(), True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, Terminal(), False),
    ],
)
def test_colours_are_for_those_who_want_them(
    environment: dict[str, str], stream: io.StringIO, *, is_coloured: bool
) -> None:
    assert uses_colour(stream, environment) is is_coloured


def test_a_line_for_machines_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")

    log.warning("the %s is late", "train", extra={"job": "j7", "fence": 3, "platform": 9})

    (line,) = objects(capsys)
    moment = datetime.fromisoformat(line.pop("time"))
    assert moment.utcoffset() is not None
    assert moment.microsecond % 1000 == 0
    assert line == {
        "level": "WARNING",
        "logger": "app",
        "message": "the train is late",
        "job": "j7",
        "fence": 3,
        "platform": 9,
    }


def test_a_line_for_machines_has_its_traceback_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")

    log.error("it failed", exc_info=ValueError("no\nluck"))

    (line,) = objects(capsys)
    assert line["error"] == "ValueError: no\nluck"


@pytest.mark.parametrize(
    "odd",
    [
        object(),
        Sullen(),
        float("nan"),
        [float("inf")],
        {(1, 2): "key"},
        {"key": {b"bytes"}},
        pytest.param(10**5000, id="huge"),
        pytest.param("a\r\n\u2028\x85\x00\ud800b", id="text"),
        datetime(2026, 1, 1),  # noqa: DTZ001 - users log naive datetimes too
    ],
)
def test_a_line_for_machines_is_valid_whatever_it_is_about(odd: object, capsys: pytest.CaptureFixture[str]) -> None:
    circle: list[object] = [odd]
    circle.append(circle)
    configure("json")

    log.info("odd", extra={"odd": odd, "job": "j7", "fence": 3})
    log.info("circle", extra={"circle": circle, "level": "mine"})
    unheard().info(odd)

    first, second, third = objects(capsys)
    assert (first["message"], first["job"], first["fence"]) == ("odd", "j7", 3)
    assert (second["message"], second["level"]) == ("circle", "INFO")
    assert isinstance(third["message"], str)


@pytest.mark.parametrize("format", ["human", "json"])
def test_a_line_whose_arguments_do_not_fit_is_written(format: Any, capsys: pytest.CaptureFixture[str]) -> None:
    configure(format)

    unheard().info("%s and %s", "one")

    assert "%s and %s (arguments do not match the message)" in written(capsys)


def test_a_line_that_is_written_in_a_run_has_the_facts_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    set_worker("w2")

    with tenure.testing.claim("send", {"to": "ada"}, queue="mail", attempt=2) as run:
        log.info("sending")
        log.info("another", extra={"job": "j7"})
    log.info("outside")

    inside, another, outside = objects(capsys)
    assert (inside["job"], inside["type"], inside["queue"]) == (run.id, "send", "mail")
    assert (inside["attempt"], inside["fence"], inside["worker"]) == (2, run.fence, run.job.worker)
    assert (another["job"], another["worker"], "fence" in another) == ("j7", "w2", False)
    assert (outside["worker"], "job" in outside) == ("w2", False)


def test_only_lines_of_the_level_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="warning")

    log.info("not this")
    log.warning("but this")

    assert [line[9:] for line in written(capsys).splitlines()] == ["WARNING but this"]


def test_configured_again_a_line_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    configure("json", "DEBUG")
    set_worker("w1")

    log.debug("once")

    (line,) = objects(capsys)
    assert (line["message"], line["worker"]) == ("once", "w1")


def test_an_unknown_format_or_level_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the log format must be 'human' or 'json', not 'jsn'; did you mean"):
        configure("jsn")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"the log level must be 'DEBUG' or .*, not 'LOUD'"):
        configure(level="loud")
