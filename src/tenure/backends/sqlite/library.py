"""What is known of the SQLite library that this process has."""

from tenure.errors import ConfigurationError

Version = tuple[int, ...]

OLDEST: Version = (3, 35, 0)
"""The first with RETURNING."""

FIXED: Version = (3, 51, 3)
BACKPORTS: tuple[Version, ...] = ((3, 50, 7), (3, 44, 6))
FIRST_AFFECTED: Version = (3, 7, 0)

WAL_RESET = (
    "SQLite 3.7.0 to 3.51.2 can lose a commit in WAL mode when two connections write or checkpoint at the same instant "
    "(the WAL-reset bug); it is fixed in 3.51.3, 3.50.7 and 3.44.6"
)


def has_wal_reset_bug(version: Version) -> bool:
    """Tell whether this version can lose a commit; see `WAL_RESET`."""
    if not FIRST_AFFECTED <= version < FIXED:
        return False
    return not any(version[:2] == backport[:2] and version >= backport for backport in BACKPORTS)


def text(version: Version) -> str:
    return ".".join(map(str, version))


def check(version: Version) -> None:
    """Raise if this version cannot do what a store needs."""
    if version < OLDEST:
        raise ConfigurationError(
            f"this Python has SQLite {text(version)}, and a store needs {text(OLDEST)} or newer; use a newer Python or "
            "system library, or another store"
        )
