"""Read all keys of a store with plain commands, while no process writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.redis.stores import Place
from tests.servers.prefixes import Client, client_of, keys_under

HASHES = (
    "store",
    "jobs",
    "rows",
    "lanes",
    "keys",
    "tokens",
    "history",
    "results",
    "numbers",
    "counts",
    "workers",
    "schedules",
    "waiting",
)
LINES = (
    "catalogue",
    "due",
    "scheduled",
    "upcoming",
    "leases",
    "held",
    "finished",
    "stopped",
    "minutes",
    "shown",
    "waiters",
    "waits",
)
"""The sorted sets."""
SETS = ("open", "paused")


class Row(NamedTuple):
    """The mutable fields of a job, as text."""

    state: str
    lane: str
    rank: str
    sequence: str
    run_at: str
    attempts: str
    crashes: str
    fence: str
    max_attempts: str
    max_crashes: str
    leased_until: str
    started_at: str
    created_at: str
    finished_at: str
    cancel_requested: str
    first_line: str
    next_line: str
    result_dropped: str
    key: str
    worker: str
    token: str
    progress: str
    salt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of the keys, by short name."""

    keys: frozenset[str]
    hashes: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, Mapping[str, int]]
    """The members of each sorted set, with scores."""
    sets: Mapping[str, frozenset[str]]

    def rows(self) -> dict[str, Row]:
        return {id: Row(*text.split(",")) for id, text in self.hashes["rows"].items()}


def contents_of(place: Place) -> Contents:
    start = place.key("")
    with client_of(place.server) as client:
        return Contents(
            keys=frozenset(key.removeprefix(start) for key in keys_under(place.prefix, client)),
            hashes={name: _hash(client, start + name) for name in HASHES},
            lines={name: _line(client, start + name) for name in LINES},
            sets={name: frozenset(map(bytes.decode, _members(client, start + name))) for name in SETS},
        )


def _hash(client: Client, key: str) -> dict[str, str]:
    found: Any = client.hgetall(key)
    return {field.decode(): value.decode() for field, value in found.items()}


def _line(client: Client, key: str) -> dict[str, int]:
    found: Any = client.zrange(key, 0, -1, withscores=True)
    return {member.decode(): int(score) for member, score in found}


def _members(client: Client, key: str) -> Any:
    return client.smembers(key)
