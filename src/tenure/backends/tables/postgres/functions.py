"""The functions of a table: the same fenced claim for psql, an RPC, or any other language.

Their statements on the rows are those of the operations, with the values that they name as variables; so the two cannot
drift apart. They have the rights of whoever calls them, and no search path of a caller's changes what they mean.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from tenure.backends.tables.postgres.admin_connection import Hand, named
from tenure.backends.tables.postgres.function_sql import FunctionTexts
from tenure.backends.tables.postgres.layout import Layout, literal
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.core.table.spec import made_name, quoted
from tenure.errors import ConfigurationError

PURPOSES = {
    "claimed": "what a claim returns: the row, its fence and its token",
    "claim": "take rows that are due, and lease them",
    "extend": "prolong a lease; whether it is still held",
    "complete": "end a claim: the work is done; whether that landed",
    "fail": "end a claim: the work failed; the word of the row's state then, null if the claim was lost",
    "release": "end a claim: give the row back; whether that landed",
    "requeue_expired": "take back claims whose lease ran out; how many",
    "retry_failed": "queue failed rows again, with fresh attempts; how many",
}

OURS = "Made by tenure"
"""How the comment of a function begins that is ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A function, or the type of what one returns. Its comment tells whether one that is there is the same."""

    kind: str
    schema: str
    name: str
    purpose: str
    text: str

    @property
    def place(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def comment(self) -> str:
        return f"{OURS}: {self.purpose}. {_digest(self._head)} {_digest(_without_path(self.text))}"

    @property
    def commented(self) -> str:
        return f"comment on {self.kind} {self.place} is {literal(self.comment)}"

    def is_headed_as(self, comment: str) -> bool:
        """Tell whether one with this comment takes and returns the same, and so can be replaced."""
        return self.kind == "function" and comment.split()[-2] == _digest(self._head)

    @property
    def _head(self) -> str:
        return self.text.partition("\nlanguage ")[0]


def functions_of(hand: Hand, layout: Layout) -> list[Made]:
    """Return the functions of a table, and before them the type of what one of them returns."""
    schema, table = layout.table.schema, layout.table.name
    return [
        Made(
            kind="type" if name == "claimed" else "function",
            schema=schema,
            name=made_name(name, table),
            purpose=PURPOSES[name],
            text=text,
        )
        for name, text in FunctionTexts(hand, layout).all()
    ]


def functions_script(layout: Layout, made: Sequence[Made]) -> str:
    """Return what makes them, as one text to be run by hand."""
    head = f"-- The functions of {layout.table.shown}, for other languages; `migrate(functions=True)` installs them."
    claimed, claim, *_ = made
    gone = f"drop function if exists {claim.place};\ndrop type if exists {claimed.place};"
    return "\n\n".join([head, gone, *(f"{each.text};\n\n{each.commented};" for each in made)]) + "\n"


def functions_installed(hand: Hand, made: Sequence[Made]) -> list[str]:
    """Return the statements that install what is not there, or is of another form; raise for what is not ours."""
    there = _there(hand, made)
    kept = {each.place: [shown for shown, comment in there[each.place] if comment == each.comment] for each in made}
    is_returned_anew = not kept[made[0].place]
    dropped = {
        shown: each.kind
        for each in reversed(made)
        for shown, comment in there[each.place]
        if comment != each.comment and not each.is_headed_as(comment)
    }
    if is_returned_anew:
        dropped = {shown: made[1].kind for shown, _ in there[made[1].place]} | dropped
    new = [each for each in made if not kept[each.place] or (is_returned_anew and each is made[1])]
    return [
        *(f"drop {kind} {shown}" for shown, kind in sorted(dropped.items(), key=lambda each: each[1] != "function")),
        *(statement for each in new for statement in (each.text, each.commented)),
    ]


def functions_examined(hand: Hand, made: Sequence[Made]) -> Iterator[Finding]:
    """Tell of functions that are there what is wrong with them; none have to be."""
    rows = [row for each in made for row in _rows(hand, each) if (row[1] or "").startswith(OURS)]
    if not rows:
        return
    if any(not may_use for _, _, may_use in rows):
        names = ", ".join(shown for shown, _, may_use in rows if not may_use)
        text = f"this role may not use what is there for other languages: {names}"
        yield Finding(gravity=Gravity.NOTE, about="functions", text=text, remedy="grant execute on it to the role")
    if {comment for _, comment, _ in rows} != {each.comment for each in made}:
        yield Finding(
            gravity=Gravity.WARNING,
            about="functions",
            text="the functions for other languages are not those of the table as it is described and is now",
            remedy="run `migrate(functions=True)`, or `tenure migrate … --functions`",
        )


def _there(hand: Hand, made: Sequence[Made]) -> dict[str, list[tuple[str, str]]]:
    """Return by the place of each what is there, as it is dropped, with its comment; raise if that is not ours."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in made:
        rows = [(shown, comment or "") for shown, comment, _ in _rows(hand, each)]
        for shown, comment in rows:
            if not comment.startswith(OURS):
                raise ConfigurationError(
                    f"there is a {each.kind} {shown} that tenure did not make; rename it, or do without the functions"
                )
        found[each.place] = rows
    return found


def _rows(hand: Hand, made: Made) -> list[tuple[str, str | None, bool]]:
    """Return what is there of this name: how a drop names it, its comment, and whether this role may use it."""
    return hand.rows(named("ddl")[f"{made.kind}s"], {"schema": made.schema, "name": made.name})


def _without_path(text: str) -> str:
    """Return it without the search path, which is that of whoever makes it: another's is no reason to make it anew."""
    return re.sub(r"^set search_path = .*\n", "", text, count=1, flags=re.MULTILINE)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
