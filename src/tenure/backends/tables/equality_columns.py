"""Find the columns that a condition fixes to single values: an index that starts with them serves the condition."""

import re

from tenure.core.table.condition import SqlCondition

NAME_PATTERN = r'(?:"(?:[^"]|"")+"|[A-Za-z_]\w*)'
VALUE_PATTERN = r"(?::[A-Za-z_]\w*|'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false)"
EQUALITY_PATTERN = rf"(?:{NAME_PATTERN}\s*\.\s*)*({NAME_PATTERN})\s*=\s*{VALUE_PATTERN}(?:\s*::\s*[A-Za-z_][\w.]*)?"
CONJUNCTION_PATTERN = re.compile(rf"{EQUALITY_PATTERN}(?:\s+and\s+{EQUALITY_PATTERN})*", re.IGNORECASE)


def equal_columns(condition: SqlCondition | None) -> list[str]:
    """Return the columns of `a = :x and b = 'y'`, without quotes; an empty list for any other kind of condition."""
    if condition is None:
        return []
    text = condition.render("value")
    if CONJUNCTION_PATTERN.fullmatch(text) is None:
        return []
    return list(dict.fromkeys(_catalogue_name(found) for found in re.findall(EQUALITY_PATTERN, text, re.IGNORECASE)))


def _catalogue_name(name: str) -> str:
    """Return a name as the catalogue spells it: unquoted names in lower case."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
