"""A cluster of three masters with a third of the slots each; tests can move slots between the masters."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.process import PATIENCE
from tests.servers.redis import FAST, OwnRedis, Settings, with_prefix

MASTERS = 3
SLOTS = 16_384
BUS = 10_000
"""Distance from the port of a master to its cluster bus port."""

SETTINGS: Settings = {**FAST, "cluster-enabled": "yes", "cluster-require-full-coverage": "yes"}


class RedisCluster:
    def __init__(self, name: str, home: Path) -> None:
        with ExitStack() as started:
            self.masters = [self._master(name, home, started) for _ in range(MASTERS)]
            self._clients = [started.enter_context(client_of(master)) for master in self.masters]
            self._ids = [self.ask(number, "MYID") for number in range(MASTERS)]
            self._join()
            self._running = started.pop_all()
        self.version = self.masters[0].version

    @property
    def url(self) -> str:
        """The URL of the cluster, with the address of the first master."""
        return f"redis+cluster://{LOOPBACK}:{self.masters[0].port}"

    def url_of(self, prefix: str) -> str:
        """Return the URL of a store with a prefix."""
        return with_prefix(self.url, prefix)

    def ask(self, master: int, *words: str | int) -> Any:
        """Send a CLUSTER command to a master; return the reply."""
        return self._clients[master].execute_command("CLUSTER", *words)

    def owner_of(self, slot: int) -> int:
        """Return the number of the master that owns the slot."""
        return next(self._ids.index(first[2]) for begin, end, first, *_ in self.ask(0, "SLOTS") if begin <= slot <= end)

    def move_slot(self, slot: int, to: int) -> None:
        """Move a slot with its keys to another master. The former master then replies MOVED."""
        with self.moving_slot(slot, to):
            pass

    @contextmanager
    def moving_slot(self, slot: int, to: int) -> Iterator[Callable[[], None]]:
        """Migrate a slot to another master; finish the migration on exit.

        Meanwhile the former master replies ASK to requests for keys that it no longer has. The yielded function moves
        the present keys.
        """
        origin = self.owner_of(slot)
        if origin == to:
            raise ValueError(f"slot {slot} is at master {to} already; name another one")
        self.ask(to, "SETSLOT", slot, "IMPORTING", self._ids[origin])
        self.ask(origin, "SETSLOT", slot, "MIGRATING", self._ids[to])
        move_keys = partial(self._move_keys, slot, origin, to)
        try:
            yield move_keys
        finally:
            move_keys()
            # The new owner first, so that the slot always has an owner.
            for number in (to, origin, *(set(range(MASTERS)) - {to, origin})):
                self.ask(number, "SETSLOT", slot, "NODE", self._ids[to])

    def close(self) -> None:
        """Stop the masters and remove their files."""
        self._running.close()

    def _master(self, name: str, home: Path, started: ExitStack) -> OwnRedis:
        master = OwnRedis(name, home, SETTINGS, over_tcp=True, port=free_port(second=BUS))
        started.callback(master.close)
        return master

    def _join(self) -> None:
        for number in range(MASTERS):
            first, end = (SLOTS * each // MASTERS for each in (number, number + 1))
            self.ask(number, "SET-CONFIG-EPOCH", number + 1)
            self.ask(number, "ADDSLOTS", *range(first, end))
        # Introduce all pairs of masters: gossip would take up to a second longer.
        for number, other in permutations(range(MASTERS), 2):
            self.ask(number, "MEET", LOOPBACK, self.masters[other].port)
        ends_at = time.monotonic() + PATIENCE
        while not all(self._is_whole(number) for number in range(MASTERS)):
            if time.monotonic() > ends_at:
                raise RuntimeError(f"the cluster is not complete after {PATIENCE:g} s:\n{self.ask(0, 'INFO')}")
            time.sleep(0.01)

    def _is_whole(self, master: int) -> bool:
        told = self.ask(master, "INFO")
        return "cluster_state:ok" in told and f"cluster_size:{MASTERS}" in told

    def _move_keys(self, slot: int, origin: int, to: int) -> None:
        target = (LOOPBACK, self.masters[to].port, "", 0, int(PATIENCE * 1000))
        while keys := self.ask(origin, "GETKEYSINSLOT", slot, 100):
            self._clients[origin].execute_command("MIGRATE", *target, "KEYS", *keys)


def client_of(master: OwnRedis) -> redis.Redis:
    return redis.Redis(host=LOOPBACK, port=master.port, decode_responses=True)


def slot_of(prefix: str) -> int:
    """Return the slot of the keys with a prefix."""
    return int(key_slot(f"{{{prefix}}}".encode()))
