"""Operations that are part of a transaction of the caller's: the same statements that the store itself runs.

The caller's role needs the rights on the table that these statements need, and no others.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenure.backends.tables.postgres.bound_table import Place
from tenure.backends.tables.postgres.settle import extending_text, rounds, settling_text, told
from tenure.connections.caller import Caller
from tenure.core.job import Entry
from tenure.core.operations import Enqueued, Extension, Holding, Settlement
from tenure.core.table.condition import tokens
from tenure.errors import ConfigurationError

EACH_STATEMENT = "read committed"
"""How a transaction is isolated that sees, with each statement, what others committed."""


@contextmanager
def joining(place: Place, connection: object) -> Iterator["Joined"]:
    """Give what can be done in the transaction on a connection of the caller's."""
    lacking = f"connection leads to a database without the table {place.spec.shown!r}"
    with place.database.joining(connection, lacking) as caller:
        yield Joined(place, connection, caller)


class Joined:
    """What can be done in the transaction of this caller."""

    def __init__(self, place: Place, connection: object, caller: Caller) -> None:
        self._place = place
        self._connection = connection
        self._caller = caller
        self._seems_open: Callable[[], bool] = lambda: False
        self._number: str | None = None

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:  # noqa: ARG002
        raise ConfigurationError(f"{self._place.spec.shown} is a table of your own: insert rows into it")

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        asked = list(rounds(self._place, extensions))
        answers = [self._ask("extend", extending_text(self._place, each, self._table)) for each in asked]
        return [Holding(each) for each in told(asked, answers, [Holding.LOST.value] * len(extensions))]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        asked = list(rounds(self._place, settlements))
        answers = [self._ask("settle", settling_text(self._place, each, self._table)) for each in asked]
        return told(asked, answers, [False] * len(settlements))

    @property
    def _table(self) -> str:
        return self._place.layout.catalogue.identity

    def is_open(self) -> bool:
        # Most drivers cannot tell the transaction from the next one on the same connection; the server can.
        return self._number is not None and self._seems_open() and self._place.database.is_open(self._number)

    def is_of(self, connection: object) -> bool:
        return connection == self._connection

    def _ask(self, operation: str, asked: str) -> Any:
        answer = self._caller.ask(portable(self._place.wording.text(operation, operation)), asked)
        if answer is None:
            self._place.forget()
            raise ConfigurationError(
                f"connection leads to another table {self._place.spec.shown!r} than "
                f"{self._place.database.address.shown!r}; one transaction can only hold both if they are in one "
                "database"
            )
        found = json.loads(answer)
        self._number, isolation, answers = found
        self._refuse_old_sight(isolation, answers)
        self._seems_open = self._caller.in_transaction()
        return found

    def _refuse_old_sight(self, isolation: str, answers: Sequence[object]) -> None:
        """Raise if what is said to be lost may only be newer than what the transaction sees."""
        if isolation != EACH_STATEMENT and (False in answers or Holding.LOST.value in answers):
            raise ConfigurationError(
                f"the transaction of connection is {isolation}: it may have begun before the claim, and cannot tell "
                "whether that is lost; use one that is read committed"
            )


def portable(text: str) -> str:
    """Return a statement in which no driver takes a colon in quotes for a value of its own."""
    return "".join(_without_colon(each.text) if each.kind == "quoted" else each.text for each in tokens(text))


def _without_colon(quoted: str) -> str:
    if ":" not in quoted or quoted.startswith("$"):
        return quoted
    return "U&" + quoted.replace("\\", "\\\\").replace(":", "\\003A")
