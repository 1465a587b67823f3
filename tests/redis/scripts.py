"""Scripts of the tests' own, run as those of the store are."""

import hashlib

from tenure.backends.redis.script import Script


def script(text: str, *keys: str) -> Script:
    return Script("test", keys, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


COUNT = script("return redis.call('INCRBY', KEYS[1], ARGV[1])", "number")
"""Counts how often it was run, whoever heard of it."""
