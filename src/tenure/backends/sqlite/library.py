"""The version of the SQLite library, and its known bugs."""

from tenure.errors import ConfigurationError

Version = tuple[int, ...]

OLDEST_SUPPORTED: Version = (3, 35, 0)
"""The first version with RETURNING."""

FIXED_IN: Version = (3, 51, 3)
FIXED_IN_BACKPORTS: tuple[Version, ...] = ((3, 50, 7), (3, 44, 6))
FIRST_AFFECTED: Version = (3, 7, 0)

WAL_RESET = (
    "SQLite 3.7.0 to 3.51.2 can lose a commit in WAL mode when two connections write or checkpoint at the same instant "
    "(the WAL-reset bug); it is fixed in 3.51.3, 3.50.7 and 3.44.6"
)


def has_wal_reset_bug(version: Version) -> bool:
    """Return whether this version can lose a commit; see `WAL_RESET`."""
    if not FIRST_AFFECTED <= version < FIXED_IN:
        return False
    return not any(version[:2] == backport[:2] and version >= backport for backport in FIXED_IN_BACKPORTS)


def format_version(version: Version) -> str:
    return ".".join(map(str, version))


def require_supported(version: Version) -> None:
    """Raise `ConfigurationError` if this version is too old."""
    if version < OLDEST_SUPPORTED:
        raise ConfigurationError(
            f"this Python has SQLite {format_version(version)}, but tenure needs {format_version(OLDEST_SUPPORTED)} "
            "or newer; use a newer Python or system library, or another store"
        )
