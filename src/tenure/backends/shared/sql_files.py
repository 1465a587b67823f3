"""Load the SQL statements of an operation from its file.

A file holds the statements of one operation. A line `-- name: purpose` precedes each statement. Braces name a fragment
that several files share: `{columns}` is replaced with the text of that name.
"""

import re
from collections.abc import Mapping
from importlib.resources import files


def statements(package: str, operation: str, **fragments: str) -> Mapping[str, str]:
    """Return the statements of `operation.sql` by name."""
    return {name: body.format(**fragments) for name, body in raw_statements(package, operation).items()}


def raw_statements(package: str, operation: str) -> Mapping[str, str]:
    """Return the statements of `operation.sql` by name, without comments; fragments are not replaced yet."""
    text = files(package).joinpath(f"{operation}.sql").read_text("utf-8")
    found = re.split(r"^-- name: (.+)$", text, flags=re.MULTILINE)[1:]
    return {name: _strip_comments(body) for name, body in zip(found[::2], found[1::2], strict=True)}


def _strip_comments(body: str) -> str:
    return re.sub(r"^\s*--.*\n", "", body, flags=re.MULTILINE).strip().removesuffix(";")
