"""Rows that are not as our operations leave them: others changed them, or a program before us left them so.

The look is bounded: so many rows of each kind, and so long for each question.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from psycopg import errors

from tenure.backends.shared.sql_files import parts
from tenure.backends.tables.postgres.admin_connection import Hand
from tenure.backends.tables.postgres.catalogue import Relation
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.statements import numbered
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.core.job import FINISHED, State
from tenure.core.table.spec import Role, quoted

MOST = 10_000
"""How many rows of each kind are counted, and how many are looked through for words that mean nothing."""
LONGEST_LOOK = 3.0
"""Seconds for each question."""
EXAMPLES = 3


class StrayRows:
    """Asks for them one kind after the other."""

    def __init__(self, hand: Hand, layout: Layout, output: Relation | None) -> None:
        self._hand = hand
        self._layout = layout
        self._output = output

    def findings(self) -> Iterator[Finding]:
        yield from self._unknown_words()
        yield from self._half_cleared()
        yield from self._unleased()
        if self._layout.spec.is_sidecar:
            yield from self._of_the_companion()
        if self._output is not None:
            yield from self._output_twice(self._output)

    def _unknown_words(self) -> Iterator[Finding]:
        rows = self._ask("unknown words")
        if rows is None:
            yield _not_looked_at("words of the state")
            return
        for word, number, looked_at in rows:
            among = f"{number:,} of {looked_at:,} rows looked at"
            if word is None:
                yield _found(
                    Gravity.WARNING,
                    "states",
                    f"{among} have no state, and nobody claims them",
                    self._statement("mending rows without a state"),
                )
            else:
                yield _found(
                    Gravity.WARNING,
                    "states",
                    f"{among} have {word!r} in {self._name(Role.STATE)!r}, which is the word for no state: nobody "
                    "claims, counts or shows them",
                    "say in states which state it means, or leave it so if those rows are not to be worked on",
                )

    def _half_cleared(self) -> Iterator[Finding]:
        yield from self._told(
            "queued and held",
            "{} queued with a lease or a token that somebody did not clear; they are claimed all the same",
            self._statement("mending queued and held"),
        )
        yield from self._told(
            "finished and leased",
            "{} finished, with a lease that somebody did not clear; it means nothing",
            self._statement("mending finished and leased"),
        )

    def _unleased(self) -> Iterator[Finding]:
        yield from self._told(
            "running without a lease",
            "{} running without a lease, so nobody ever takes them back",
            "run `migrate(adopt_running_after=600)`, or `tenure migrate … --adopt-running-after 10m`: they get a lease "
            "that ends so long after they were started",
        )
        yield from self._told(
            "running without a token",
            "{} running with a lease and without a token: adopted, or claimed by other means than ours",
            "nothing, if they were adopted: they are taken back when the lease has run out; else let only one way of "
            "claiming work on the table",
            gravity=Gravity.NOTE,
        )

    def _of_the_companion(self) -> Iterator[Finding]:
        yield from self._told(
            "orphans",
            f"{{}} in {self._layout.home_name} whose row in {self._layout.table.name} is gone",
            self._statement("mending orphans"),
            gravity=Gravity.NOTE,
        )
        yield from self._told(
            "completed and still chosen",
            "{} completed and still chosen by where: the predicate does not turn false on completion, so every claim "
            "passes over them, and who looks by it finds them undone",
            "have the work change what where looks at, in the same transaction: `claim.transaction()`",
        )

    def _output_twice(self, output: Relation) -> Iterator[Finding]:
        rows = self._ask("output twice")
        if rows is None:
            yield _not_looked_at(f"the output in {output.shown}")
            return
        ((number,),) = rows
        if number:
            yield _found(
                Gravity.ERROR,
                "output",
                f"{output.shown} has {number:,}{'' if number < MOST else ' or more'} values of the output more than "
                "once, so it cannot get its unique index",
                f"remove all but one of each, and migrate; this finds them:\n{self._statement('finding output twice')}",
            )

    def _told(self, question: str, text: str, remedy: str, *, gravity: Gravity = Gravity.WARNING) -> Iterator[Finding]:
        rows = self._ask(question)
        if rows is None:
            yield _not_looked_at(f"rows that are {question}")
            return
        ((keys,),) = rows
        if keys:
            yield _found(gravity, "rows", text.format(_counted(keys)), remedy)

    def _ask(self, question: str) -> list[tuple[Any, ...]] | None:
        """Return what the server answers; None if that takes too long."""
        text = parts(__package__, "stray_rows")[question].format(**self._fragments)
        try:
            with self._hand.connection.transaction():
                self._hand.set("statement_timeout", f"{1000 * LONGEST_LOOK:.0f}")
                return self._hand.rows(
                    numbered(text, is_prepared=False), {"most": MOST, **param_values(self._layout.spec)}
                )
        except errors.QueryCanceled:
            return None

    @cached_property
    def _fragments(self) -> Mapping[str, str]:
        layout, output, spec = self._layout, self._output, self._layout.spec
        names = [quoted(each.name) for each in layout.key]
        columns = [quoted(each) for each in spec.output.columns] if spec.output is not None else []
        return {
            "home": layout.home,
            "table": layout.table.place,
            "alias": layout.alias,
            "ours": layout.ours,
            "key": f"concat_ws(', ', {', '.join(names)})",
            "key_columns": ", ".join(names),
            "same_key": self._same_key,
            "state": quoted(self._name(Role.STATE)),
            "token": quoted(self._name(Role.TOKEN)),
            "leased_until": quoted(self._name(Role.LEASED_UNTIL)),
            "words": ", ".join(layout.words.values()),
            "finished": ", ".join(layout.words[state] for state in State if state in FINISHED),
            **{state.value: word for state, word in layout.words.items()},
            "where": "true" if spec.where is None else spec.where.written("param"),
            "output": "" if output is None else output.place,
            "output_columns": ", ".join(columns),
            "output_is_there": " and ".join(f"{each} is not null" for each in columns),
        }

    @property
    def _same_key(self) -> str:
        ours, alias = self._layout.ours, self._layout.alias
        names = [quoted(each.name) for each in self._layout.key]
        return " and ".join(f"{alias}.{name} = {ours}.{name}" for name in names)

    def _name(self, role: Role) -> str:
        return self._layout.parts[role].name

    def _statement(self, name: str) -> str:
        """Return a statement for the user to run."""
        return parts(__package__, "stray_rows")[name].format(**self._fragments) + ";"


def _counted(keys: Sequence[str]) -> str:
    number = len(keys)
    shown = ", ".join(keys[:EXAMPLES]) + (", …" if number > EXAMPLES else "")
    if number == 1:
        return f"1 row ({shown}) is"
    return f"{number:,}{'' if number < MOST else ' or more'} rows ({shown}) are"


def _not_looked_at(what: str) -> Finding:
    return _found(Gravity.NOTE, "rows", f"{what} were not looked at: it took more than {LONGEST_LOOK:g} s")


def _found(gravity: Gravity, about: str, text: str, remedy: str | None = None) -> Finding:
    return Finding(gravity=gravity, about=about, text=text, remedy=remedy)
