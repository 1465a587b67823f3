"""An error in one line: what kind it is, and the first thing that it says."""

LONGEST = 300
TRACEBACK = "Traceback (most recent call last):"
GROUP = "Exception Group "


def headline_of(error: BaseException) -> str:
    """Return the line for an exception."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - whatever its class says when it cannot show itself
        said = ""
    first = next(iter(said.strip().splitlines()), "")
    return _cut(f"{type(error).__name__}: {first}" if first else type(error).__name__)


def headline(text: str) -> str:
    """Return the line for an error as a job keeps it: with a traceback, or a reason alone."""
    lines = [line for line in text.splitlines() if line.strip()]
    for number in reversed(range(len(lines))):
        place = lines[number].find(TRACEBACK)
        if place >= 0:
            # That of a group is indented by a frame of its own.
            place -= len(GROUP) * lines[number][:place].endswith(GROUP)
            after = (line[place:] for line in lines[number + 1 :])
            return _cut(next((rest for rest in after if rest and not rest[0].isspace()), ""))
    return _cut(lines[-1]) if lines else "no reason was given"


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
