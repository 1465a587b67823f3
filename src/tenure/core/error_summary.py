"""Summarize an error in one line: its class and the first line of its message."""

MAX_LENGTH = 300
TRACEBACK_HEADER = "Traceback (most recent call last):"
GROUP_PREFIX = "Exception Group "


def summarize_exception(error: BaseException) -> str:
    """Summarize an exception."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the user's `__str__` may raise anything
        message = ""
    first = next(iter(message.strip().splitlines()), "")
    return _truncate(f"{type(error).__name__}: {first}" if first else type(error).__name__)


def summarize_error(text: str) -> str:
    """Summarize the error text of a job: a traceback, or only a reason."""
    lines = [line for line in text.splitlines() if line.strip()]
    for number in reversed(range(len(lines))):
        indent = lines[number].find(TRACEBACK_HEADER)
        if indent >= 0:
            # The header of an exception group has a prefix, which the line of its message lacks.
            indent -= len(GROUP_PREFIX) * lines[number][:indent].endswith(GROUP_PREFIX)
            after = (line[indent:] for line in lines[number + 1 :])
            return _truncate(next((rest for rest in after if rest and not rest[0].isspace()), ""))
    return _truncate(lines[-1]) if lines else "no reason given"


def _truncate(line: str) -> str:
    return line if len(line) <= MAX_LENGTH else f"{line[:MAX_LENGTH]}…"
