"""Which columns a condition of the user's fixes to one value each: an index that begins with these serves it."""

import re

from tenure.core.table.condition import Fragment

NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_]\w*)'
VALUE = r"(?::[A-Za-z_]\w*|'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false)"
EQUALITY = rf"(?:{NAME}\s*\.\s*)*({NAME})\s*=\s*{VALUE}(?:\s*::\s*[A-Za-z_][\w.]*)?"
CONJUNCTION = re.compile(rf"{EQUALITY}(?:\s+and\s+{EQUALITY})*", re.IGNORECASE)


def equal_columns(condition: Fragment | None) -> list[str]:
    """Return the columns of `a = :x and b = 'y'` as they are written, without quotes; of any other condition, none."""
    if condition is None:
        return []
    text = condition.written("value")
    if CONJUNCTION.fullmatch(text) is None:
        return []
    return list(dict.fromkeys(_named(found) for found in re.findall(EQUALITY, text, re.IGNORECASE)))


def _named(name: str) -> str:
    """Return a name as the catalogue may have it: what is not quoted is in lower case."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
