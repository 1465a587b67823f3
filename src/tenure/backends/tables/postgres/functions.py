"""SQL functions of a table: the same fenced claim for psql, an RPC, or any other language.

The functions contain the statements of the operations, with variables for the values, so the two cannot diverge. They
run with the rights of the caller, and set their own search path.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from tenure.backends.tables.postgres.admin_connection import AdminConnection, load_statements
from tenure.backends.tables.postgres.function_sql import FunctionSql
from tenure.backends.tables.postgres.layout import Layout, quote_literal
from tenure.backends.tables.protocol import Finding, Severity
from tenure.core.table.spec import derive_name, quote_identifier
from tenure.errors import ConfigurationError

FUNCTION_PURPOSES = {
    "claimed": "a claimed row with its fence and token",
    "claim": "claim due rows and lease them",
    "extend": "extend a lease; returns whether the claim is still held",
    "complete": "complete a claimed row; returns false if the claim was lost",
    "fail": "fail a claimed row; returns the new state, null if the claim was lost",
    "release": "release a claimed row; returns false if the claim was lost",
    "requeue_expired": "reap expired claims; returns their number",
    "retry_failed": "requeue failed rows with attempts reset; returns their number",
}

COMMENT_PREFIX = "Made by tenure"
"""Prefix of the comment on every function that tenure created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseObject:
    """A function, or the return type of one. The comment contains digests to detect an outdated function."""

    kind: str
    schema: str
    name: str
    purpose: str
    text: str

    @property
    def quoted_name(self) -> str:
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"

    @property
    def comment(self) -> str:
        return f"{COMMENT_PREFIX}: {self.purpose}. {_digest(self._signature)} {_digest(_remove_search_path(self.text))}"

    @property
    def comment_statement(self) -> str:
        return f"comment on {self.kind} {self.quoted_name} is {quote_literal(self.comment)}"

    def has_same_signature(self, comment: str) -> bool:
        """Return whether a function with this comment has the same signature, so that `or replace` works."""
        return self.kind == "function" and comment.split()[-2] == _digest(self._signature)

    @property
    def _signature(self) -> str:
        return self.text.partition("\nlanguage ")[0]


def build_functions(admin: AdminConnection, layout: Layout) -> list[DatabaseObject]:
    """Return the return type of the claim function, then the functions of a table."""
    schema, table = layout.table.schema, layout.table.name
    return [
        DatabaseObject(
            kind="type" if name == "claimed" else "function",
            schema=schema,
            name=derive_name(name, table),
            purpose=FUNCTION_PURPOSES[name],
            text=text,
        )
        for name, text in FunctionSql(admin, layout).statements()
    ]


def functions_script(layout: Layout, objects: Sequence[DatabaseObject]) -> str:
    """Return a script that creates the functions, to run by hand."""
    head = (
        f"-- Functions of {layout.table.display_name} for other languages, as `migrate(functions=True)` installs them."
    )
    claimed, claim, *_ = objects
    drop_statements = f"drop function if exists {claim.quoted_name};\ndrop type if exists {claimed.quoted_name};"
    return (
        "\n\n".join([head, drop_statements, *(f"{each.text};\n\n{each.comment_statement};" for each in objects)]) + "\n"
    )


def install_statements(admin: AdminConnection, objects: Sequence[DatabaseObject]) -> list[str]:
    """Return the statements that install missing or outdated functions. Raise if tenure did not create one."""
    existing = _existing_objects(admin, objects)
    kept = {
        each.quoted_name: [shown for shown, comment in existing[each.quoted_name] if comment == each.comment]
        for each in objects
    }
    is_type_outdated = not kept[objects[0].quoted_name]
    dropped = {
        shown: each.kind
        for each in reversed(objects)
        for shown, comment in existing[each.quoted_name]
        if comment != each.comment and not each.has_same_signature(comment)
    }
    if is_type_outdated:
        dropped = {shown: objects[1].kind for shown, _ in existing[objects[1].quoted_name]} | dropped
    new = [each for each in objects if not kept[each.quoted_name] or (is_type_outdated and each is objects[1])]
    return [
        *(f"drop {kind} {shown}" for shown, kind in sorted(dropped.items(), key=lambda each: each[1] != "function")),
        *(statement for each in new for statement in (each.text, each.comment_statement)),
    ]


def check_functions(admin: AdminConnection, objects: Sequence[DatabaseObject]) -> Iterator[Finding]:
    """Report outdated or unusable functions. Functions are optional: report nothing if there are none."""
    rows = [row for each in objects for row in _existing_rows(admin, each) if (row[1] or "").startswith(COMMENT_PREFIX)]
    if not rows:
        return
    if any(not may_use for _, _, may_use in rows):
        names = ", ".join(shown for shown, _, may_use in rows if not may_use)
        text = f"the current role may not use these functions or types: {names}"
        yield Finding(severity=Severity.NOTE, about="functions", text=text, remedy="grant the role execute on them")
    if {comment for _, comment, _ in rows} != {each.comment for each in objects}:
        yield Finding(
            severity=Severity.WARNING,
            about="functions",
            text="the functions for other languages are outdated: the table or its description has changed",
            remedy="run `migrate(functions=True)`, or `tenure migrate … --functions`",
        )


def _existing_objects(admin: AdminConnection, objects: Sequence[DatabaseObject]) -> dict[str, list[tuple[str, str]]]:
    """Return the existing functions and their comments by name. Raise if tenure did not create one."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in objects:
        rows = [(shown, comment or "") for shown, comment, _ in _existing_rows(admin, each)]
        for shown, comment in rows:
            if not comment.startswith(COMMENT_PREFIX):
                raise ConfigurationError(
                    f"{each.kind} {shown} exists, but tenure did not create it; rename it, or omit the functions"
                )
        found[each.quoted_name] = rows
    return found


def _existing_rows(admin: AdminConnection, target: DatabaseObject) -> list[tuple[str, str | None, bool]]:
    """Return the existing objects of this name: the name for `drop`, the comment, and whether the role may use it."""
    return admin.fetch(load_statements("ddl")[f"{target.kind}s"], {"schema": target.schema, "name": target.name})


def _remove_search_path(text: str) -> str:
    """Remove the search path: it depends on the migrating role, and must not make the function outdated."""
    return re.sub(r"^set search_path = .*\n", "", text, count=1, flags=re.MULTILINE)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
