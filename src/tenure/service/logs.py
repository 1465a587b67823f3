"""Format the log of a service: lines for people, or one JSON object a line for machines.

For tenure's own programs; the library configures no logging. Every line logged while a job runs carries the fields of
that run, also lines of user code.
"""

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import IO, Any, Literal

from tenure.client.run import CURRENT_RUN
from tenure.core import checks
from tenure.core.log_fields import job_log_fields

Format = Literal["human", "json"]

FORMATS = ("human", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
RUN_FIELDS = ("job", "type", "queue", "attempt", "fence", "worker")
"""The fields of a run, in order of output."""

_FIELD_FORMATS = {"job": "{}", "type": "({})", "attempt": "attempt {}", "fence": "fence {}", "worker": "{}"}
"""How a message shows each field, if it does."""
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_DIM, _RESET = "\033[2m", "\033[0m"
_COLOURS = {logging.WARNING: "\033[33m", logging.ERROR: "\033[31m", logging.CRITICAL: "\033[1;31m"}
# Escape control characters: an error may quote untrusted input, and a terminal would interpret it.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) != "\t"}


def configure(format: Format | None = None, level: str = "INFO") -> None:
    """Write all logs of this process to stderr. User code may reconfigure logging later."""
    format = "json" if checks.choice("the log format", format or "human", FORMATS) == "json" else "human"
    level = checks.choice("the log level", level.upper(), LEVELS)
    log_handler = LogHandler(sys.stderr)
    log_handler.setFormatter(
        JSONFormatter() if format == "json" else HumanFormatter(is_coloured=uses_colour(sys.stderr))
    )
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, LogHandler)]:
        root.removeHandler(handler)
    root.addHandler(log_handler)
    root.setLevel(level)


def set_worker(worker: str) -> None:
    """Set the worker field of lines outside a run. A process has one worker."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogHandler):
            handler.worker = worker


def uses_colour(stream: IO[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to use colours. NO_COLOR, FORCE_COLOR, TERM and the stream decide, in this order."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return environment.get("TERM") != "dumb" and stream.isatty()


class LogHandler(logging.StreamHandler[IO[str]]):
    """Add the fields of the current run to each line."""

    worker: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        run = CURRENT_RUN.get()
        # A line with a job field may be about another run than the current one.
        fields = {"worker": self.worker} if run is None or hasattr(record, "job") else job_log_fields(run.job)
        for name, value in fields.items():
            if value is not None and not hasattr(record, name):
                setattr(record, name, value)
        super().emit(record)


class HumanFormatter(logging.Formatter):
    """`12:01:03 WARNING job … failed …  fence=1 worker=…`: fields that the message contains are not repeated.

    Lines after the first are indented, so that no text can pass for a log line.
    """

    def __init__(self, *, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        message = _format_message(record)
        timestamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        first, *below = [_escape_controls(line) for line in [*message.split("\n"), *_format_error(record).splitlines()]]
        fields = _format_fields(message, record)
        level = f"{record.levelname:<7}"
        if self._is_coloured:
            level = f"{_COLOURS.get(record.levelno, _DIM)}{level}{_RESET}"
            fields = f"{_DIM}{fields}{_RESET}" if fields else ""
        return "\n    ".join([f"{timestamp} {level} {first}  {fields}".rstrip(), *below])


class JSONFormatter(logging.Formatter):
    """One JSON object a line, for any message and any `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _format_message(record),
        }
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line |= {name: extra.pop(name) for name in RUN_FIELDS if extra.get(name) is not None}
        if error := _format_error(record):
            line["error"] = error
        line |= {name: value for name, value in extra.items() if name not in line}
        try:
            return json.dumps(line, default=_to_text, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return json.dumps({name: value if _is_plain(value) else _to_text(value) for name, value in line.items()})


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a malformed line must still be logged
        return f"{_to_text(record.msg)} (arguments do not match the message)"


def _format_error(record: logging.LogRecord) -> str:
    """Return the traceback of the record, or an empty text."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return record.stack_info or ""
    try:
        return "".join(traceback.format_exception(error)).rstrip()
    except Exception:  # noqa: BLE001 - user classes may raise anything
        return f"{type(error).__name__}, which cannot be displayed"


def _format_fields(message: str, record: logging.LogRecord) -> str:
    """Return the fields that the message does not contain."""
    fields = {name: _to_text(value) for name in _FIELD_FORMATS if (value := getattr(record, name, None)) is not None}
    return " ".join(
        f"{name}={_escape_controls(text)}"
        for name, text in fields.items()
        if _FIELD_FORMATS[name].format(text) not in message
    )


def _escape_controls(text: str) -> str:
    return text.translate(_CONTROLS)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < 2**63)


def _to_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - user classes may raise anything
        return f"a {type(value).__name__} that cannot be displayed"
