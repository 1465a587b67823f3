"""Which server of a cluster has the store.

A store is one slot, so one server has it. That is looked up at whichever node answers, and again when the one that had
it says so, or says nothing.
"""

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from redis.crc import key_slot
from redis.exceptions import ClusterDownError, RedisError

from tenure.backends.redis import errors as trouble
from tenure.backends.redis.address import Address, Node
from tenure.backends.redis.connection import Wire, packed

LOOK = 2.0
"""Seconds that a node has to say who has the store: another may know as well."""

SLOTS = packed(["CLUSTER", "SLOTS"])


class Cluster:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._slot = key_slot(address.key("").encode())
        self._others: list[Node] = []
        self._primary: Node | None = None

    def connect(self) -> Wire:
        """Return a connection to the server that has the store."""
        node = self._primary or self._look_up()
        self._primary = node
        return Wire(self._address.connect(node), node)

    def heed(self, error: Exception, asked: Node | None) -> None:
        """Learn from an error where the store is; or only that this is to be looked up."""
        is_moved = asked is not None and trouble.code_of(error) == "MOVED"
        self._primary = trouble.named_node(error, asked) if asked is not None and is_moved else None

    def _look_up(self) -> Node:
        """Ask one after the other, until one answers."""
        nodes = [*random.sample(self._others, len(self._others)), *self._address.nodes]
        trouble_of_last: Exception | None = None
        for node in dict.fromkeys(nodes):
            try:
                return self._look_up_at(node)
            except (RedisError, OSError) as exc:
                trouble_of_last = exc
        raise trouble_of_last or ClusterDownError("no node is named")

    def _look_up_at(self, asked: Node) -> Node:
        patience = replace(self._address, timeout=min(self._address.timeout, LOOK))
        with closing(Wire(patience.connect(asked))) as wire:
            ranges = wire.ask(SLOTS)
        self._others = [_node(each, asked) for _, _, *nodes in ranges for each in nodes]
        for first, last, primary, *_ in ranges:
            if first <= self._slot <= last:
                return _node(primary, asked)
        raise ClusterDownError(f"no node has the slot {self._slot}")


def _node(told: Sequence[Any], asked: Node) -> Node:
    """Return a node as another tells of it; the name of its host is missing if that is the one that was asked."""
    host, port = told[0], told[1]
    return Node(host.decode() if host else asked.host, int(port))
