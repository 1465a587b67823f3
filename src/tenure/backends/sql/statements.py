"""SQL from the file of its operation.

A file holds the statements of one operation, each under a line `-- name: what it does`. Braces name a fragment that
several files share: `{columns}` stands for the text of that name.
"""

import re
from collections.abc import Mapping
from importlib.resources import files


def statements(package: str, operation: str, **fragments: str) -> Mapping[str, str]:
    """Return the statements of `operation.sql` by their names."""
    text = files(package).joinpath(f"{operation}.sql").read_text("utf-8")
    parts = re.split(r"^-- name: (.+)$", text, flags=re.MULTILINE)[1:]
    return {name: _stripped(body).format(**fragments) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _stripped(body: str) -> str:
    """Return a statement without its comments, for the engine."""
    return re.sub(r"^\s*--.*\n", "", body, flags=re.MULTILINE).strip().removesuffix(";")
