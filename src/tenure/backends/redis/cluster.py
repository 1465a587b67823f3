"""Find the cluster node that serves the store.

All keys of a store are in one slot, so one primary serves the store. `Cluster` reads the slot map from the first node
that responds, and reads it again after a redirect or a failed request.
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
"""Seconds to wait for the slot map of a node before trying the next node."""

CLUSTER_SLOTS = pack_request(["CLUSTER", "SLOTS"])


class Cluster:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._slot = key_slot(address.key("").encode())
        self._known_nodes: list[Node] = []
        self._primary: Node | None = None

    def connect(self) -> RedisConnection:
        """Open a connection to the primary that serves the store."""
        node = self._primary or self._find_primary()
        self._primary = node
        return RedisConnection(self._address.connect(node), node)

    def handle_error(self, error: Exception, node: Node | None) -> None:
        """Record the primary that a MOVED error names; after another error, look the primary up on the next connect."""
        is_moved = node is not None and errors.code_of(error) == "MOVED"
        self._primary = errors.redirect_target(error, node) if node is not None and is_moved else None

    def _find_primary(self) -> Node:
        """Read the slot map from the known nodes in turn; return the primary of the store's slot."""
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
    """Return a node of a slot map. An empty host means the node that sent the map."""
    host, port = entry[0], entry[1]
    return Node(host.decode() if host else sender.host, int(port))
