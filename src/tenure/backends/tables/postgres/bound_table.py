"""The table as operations have it: its layout, once it was looked at, and the server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg

from tenure.backends.postgres.database import Ask, Database
from tenure.backends.postgres.encoding import Value
from tenure.backends.postgres.errors import reason_of
from tenure.backends.postgres.pipeline import Step
from tenure.backends.tables.postgres.catalogue import read
from tenure.backends.tables.postgres.column_checks import refuse
from tenure.backends.tables.postgres.keys import Keys
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.rows import Reader
from tenure.backends.tables.postgres.sql_templates import Wording
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError, TenureError

T = TypeVar("T")

OF_THE_STATEMENT = ("42", "22", "23", "0A")
"""How the codes begin by which the server says that a statement, or a value in it, cannot be used, or not here."""
OF_THE_ROLE = "42501"


class Place:
    """A table in a database. It is looked at when it is first used, and again when it turns out to be another."""

    def __init__(self, database: Database, spec: TableSpec) -> None:
        self.database = database
        self.spec = spec
        self._params = param_values(spec)
        self._wording: Wording | None = None

    def look(self) -> Layout:
        """Return the table as it is now, whatever is amiss with it."""
        return Layout(spec=self.spec, catalogue=read(self.database, self.spec))

    @property
    def wording(self) -> Wording:
        """The statements on the table; raise if it cannot be claimed from."""
        if self._wording is None:
            layout = self.look()
            refuse(layout)
            self._wording = Wording(layout)
        return self._wording

    @property
    def layout(self) -> Layout:
        return self.wording.layout

    @property
    def keys(self) -> Keys:
        return Keys(self.layout.key)

    def reader(self) -> Reader:
        return Reader(self.layout)

    def forget(self) -> None:
        """Look anew when it is next used."""
        self._wording = None

    def step(
        self, operation: str, name: str, values: Mapping[str, Value], more: Mapping[str, str] | None = None
    ) -> Step:
        """Return a statement with its values; those of conditions and the moment are added."""
        statement = self.wording.statement(operation, name, more)
        given = {**self._params, "now": self.database.now(), **values}
        return Step(statement, {each: given[each] for each in statement.names})

    def ask(self, steps: Sequence[Step], *, may_repeat: bool = True) -> list[Any]:
        """Do these in one transaction and one round trip; return what each answers."""
        return self._told(lambda: self.database.ask(steps, may_repeat=may_repeat))

    def talk(self, talking: Callable[[Ask], T]) -> T:
        """Do something that may have to be done anew, in one transaction."""
        return self._told(lambda: self.database.talk(talking, may_repeat=False))

    def _told(self, action: Callable[[], T]) -> T:
        """Say what is wrong with a condition or a column, if that is why the server refuses."""
        try:
            return action()
        except TenureError as exc:
            cause = exc.__cause__
            if not isinstance(cause, psycopg.Error) or not _is_of_the_statement(cause.sqlstate):
                raise
            # The table may have been changed since it was looked at.
            self.forget()
            reason = reason_of(cause)
            raise ConfigurationError(
                f"{self.spec.shown}: the server refuses a statement: {reason}; see where, done_if, params and "
                "on_retry, and what `examine()` says of the table"
            ) from cause


def _is_of_the_statement(code: str | None) -> bool:
    return code is not None and code != OF_THE_ROLE and code.startswith(OF_THE_STATEMENT)
