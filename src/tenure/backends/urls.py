"""From a URL to an open store."""

import logging
import os
import re
from collections.abc import Callable
from urllib.parse import parse_qsl

from tenure.backends.protocol import Backend
from tenure.core import checks
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

Store = str | Callable[[], str] | Backend
"""What names a store: a URL, a function that returns one, or the store itself."""


def open_store(store: Store | None) -> Backend:
    """Open a store however it is named; None means the URL in `$TENURE_URL`."""
    if store is None and not (store := os.environ.get("TENURE_URL")):
        raise ConfigurationError("no store is named; pass a URL such as 'memory://' to Jobs, or set $TENURE_URL")
    if isinstance(store, Backend):
        return store
    url = store() if callable(store) else store
    backend = open_backend(url)
    log.info("store opened", extra={"url": masked(url)})
    return backend


def open_backend(url: str) -> Backend:
    """Open the store that the URL names; the scheme decides which backend is imported."""
    if not isinstance(url, str):
        raise ConfigurationError(f"a store is named by a URL such as 'memory://', not by {url!r}")
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in OPENERS:
        raise ConfigurationError(
            f"{masked(url)!r} does not name a store; a URL begins with {', '.join(f'{each}://' for each in OPENERS)}"
            + checks.nearest(f"{scheme.lower()}://", [f"{each}://" for each in OPENERS])
        )
    return OPENERS[scheme](url)


def masked(url: str) -> str:
    """Return the URL as it may be shown: without its password. Too much is hidden rather than too little."""
    url = re.sub(r"(?i)(pass\w*=)[^&]*", r"\1***", url)
    before, at, after = url.rpartition("@")
    scheme = re.match(r"[\w+.-]*:?//?|", before)
    start = scheme.end() if scheme else 0
    user, colon, _ = before[start:].partition(":")
    return f"{before[:start]}{user}:***@{after}" if at and colon else url


def _open_memory(url: str) -> Backend:
    from tenure.backends.memory import open_memory

    name, _, options = url.removeprefix("memory://").partition("?")
    checks.refuse_unknown(repr(masked(url)), dict(parse_qsl(options, keep_blank_values=True)), ())
    if not re.fullmatch(r"[\w.-]*", name):
        raise ConfigurationError(
            f"{masked(url)!r} must be 'memory://' or 'memory://name', of letters, digits, . _ or -"
        )
    return open_memory(name)


OPENERS: dict[str, Callable[[str], Backend]] = {"memory": _open_memory}
