"""Scripts of the tests, run in the same way as those of the store."""

import hashlib

from tenure.backends.redis.script import Script


def script(text: str, *keys: str) -> Script:
    return Script("test", keys, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


COUNT = script("return redis.call('INCRBY', KEYS[1], ARGV[1])", "number")
"""Counts its runs on the server, even if the response is lost."""
