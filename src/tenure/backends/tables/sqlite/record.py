"""The `record` column: history, progress, result, a requested cancel, and whether the work was found done."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tenure.core import checks
from tenure.core.job import HISTORY_KEPT, Ending, Outcome, Progress
from tenure.core.payload import decode_or_text

RECOVERED, PREVENTED = "recovered", "prevented"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord:
    cancel_requested: bool = False
    progress: Progress | None = None
    result: str | None = None
    result_dropped: bool = False
    found_done: str | None = None
    history: tuple[Ending, ...] = ()
    dropped: int = 0

    def for_new_claim(self) -> "RowRecord":
        """Return the record for a new claim: only the history stays."""
        return RowRecord(history=self.history, dropped=self.dropped)

    def with_line(self, line: Ending) -> "RowRecord":
        """Append a line to the history, and drop the oldest lines beyond `HISTORY_KEPT`."""
        lines = (*self.history, line)
        kept = lines[-HISTORY_KEPT:]
        return replace(self, history=kept, dropped=self.dropped + len(lines) - len(kept))

    def has_line(self, outcome: Outcome, fence: int, token: str) -> bool:
        return any((each.outcome, each.fence, each.token) == (outcome, fence, token) for each in self.history)

    @property
    def last_error(self) -> str | None:
        """The error of the last claim that ended with an error."""
        errors = (each.error for each in reversed(self.history) if each.outcome is not Outcome.OPERATOR)
        return next((each for each in errors if each is not None), None)

    @property
    def last_note(self) -> str | None:
        """The text of the last history line that has one, including lines of operators; storable in a column."""
        notes = (each.error for each in reversed(self.history) if each.error is not None)
        note = next(notes, None)
        return None if note is None else checks.replace_unstorable(note)

    @property
    def result_value(self) -> Any:
        return None if self.result is None else decode_or_text(self.result)

    def to_json(self) -> str | None:
        """Encode the record as JSON; None if it is empty."""
        progress = self.progress
        content: dict[str, Any] = {
            "cancel_requested": self.cancel_requested or None,
            "progress": None if progress is None else {"done": progress.done, "of": progress.of, "note": progress.note},
            "result": self.result,
            "result_dropped": self.result_dropped or None,
            "found_done": self.found_done,
            "dropped": self.dropped or None,
            "history": [_encode_line(each) for each in self.history] or None,
        }
        kept = {name: value for name, value in content.items() if value is not None}
        # Other code may have left text that is not valid UTF-8, for example in the column of the worker.
        return checks.replace_unstorable(json.dumps(kept, ensure_ascii=False, separators=(",", ":"))) if kept else None


EMPTY_RECORD = RowRecord()


def decode_record(text: object) -> RowRecord:
    """Decode a record. A value that is not a valid record (for example edited by hand) counts as empty."""
    if text is None:
        return EMPTY_RECORD
    try:
        found = json.loads(str(text))
        progress, found_done = found.get("progress"), found.get("found_done")
        return RowRecord(
            cancel_requested=found.get("cancel_requested") is True,
            progress=None if progress is None else Progress(**progress),
            result=_optional_text(found.get("result")),
            result_dropped=found.get("result_dropped") is True,
            found_done=found_done if found_done in {RECOVERED, PREVENTED} else None,
            history=tuple(_decode_ending(each) for each in found.get("history", ())),
            dropped=int(found.get("dropped", 0)),
        )
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        return EMPTY_RECORD


def _encode_line(ending: Ending) -> list[Any]:
    return [
        ending.outcome.value,
        ending.fence,
        ending.ended_at.isoformat(),
        ending.token,
        ending.worker,
        None if ending.claimed_at is None else ending.claimed_at.isoformat(),
        ending.error,
    ]


def _decode_ending(line: Sequence[Any]) -> Ending:
    outcome, fence, ended_at, token, worker, claimed_at, error = line
    return Ending(
        outcome=Outcome(outcome),
        fence=int(fence),
        ended_at=_parse_timestamp(ended_at),
        token=_optional_text(token),
        worker=_optional_text(worker),
        claimed_at=None if claimed_at is None else _parse_timestamp(claimed_at),
        error=_optional_text(error),
    )


def _parse_timestamp(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.utcoffset() is None else at.astimezone(UTC)


def _optional_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"not a text: {type(value).__name__}")
