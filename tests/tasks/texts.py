"""Classes and a function whose annotations are strings until they are resolved."""

from __future__ import annotations

from datetime import date
from typing import Annotated, NotRequired, TypedDict


class TextOptions(TypedDict):
    since: date
    limit: NotRequired[int]
    note: Annotated[NotRequired[str], "short"]


def report(options: TextOptions, day: date | None = None) -> date:
    return day or options["since"]
