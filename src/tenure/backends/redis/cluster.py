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

from tenure.backends.redis import errors
from tenure.backends.redis.address import Address, Node
from tenure.backends.redis.connection import RedisConnection, pack_request

LOOKUP_TIMEOUT = 2.0
"""Seconds that a node has to say who has the store: another may know as well."""

CLUSTER_SLOTS = pack_request(["CLUSTER", "SLOTS"])


class Cluster:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._slot = key_slot(address.key("").encode())
        self._known_nodes: list[Node] = []
        self._primary: Node | None = None

    def connect(self) -> RedisConnection:
        """Return a connection to the server that has the store."""
        node = self._primary or self._find_primary()
        self._primary = node
        return RedisConnection(self._address.connect(node), node)

    def handle_error(self, error: Exception, node: Node | None) -> None:
        """Learn from an error where the store is; or only that this is to be looked up."""
        is_moved = node is not None and errors.code_of(error) == "MOVED"
        self._primary = errors.redirect_target(error, node) if node is not None and is_moved else None

    def _find_primary(self) -> Node:
        """Ask one after the other, until one answers."""
        nodes = [*random.sample(self._known_nodes, len(self._known_nodes)), *self._address.nodes]
        last_error: Exception | None = None
        for node in dict.fromkeys(nodes):
            try:
                return self._find_primary_at(node)
            except (RedisError, OSError) as exc:
                last_error = exc
        raise last_error or ClusterDownError("no cluster node is known")

    def _find_primary_at(self, node: Node) -> Node:
        address = replace(self._address, timeout=min(self._address.timeout, LOOKUP_TIMEOUT))
        with closing(RedisConnection(address.connect(node))) as connection:
            ranges = connection.execute(CLUSTER_SLOTS)
        self._known_nodes = [_parse_node(each, node) for _, _, *nodes in ranges for each in nodes]
        for first, last, primary, *_ in ranges:
            if first <= self._slot <= last:
                return _parse_node(primary, node)
        raise ClusterDownError(f"no node serves slot {self._slot}")


def _parse_node(entry: Sequence[Any], sender: Node) -> Node:
    """Return a node as another tells of it; the name of its host is missing if that is the one that was asked."""
    host, port = entry[0], entry[1]
    return Node(host.decode() if host else sender.host, int(port))
