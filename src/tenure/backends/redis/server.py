"""The server as this process has it open, and what is done when it does not answer.

An operation is one script and one round trip. It is sent again, on another connection, if the server did nothing, or if
its answer was lost and it may be repeated: such requests change nothing twice.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, TypeVar

from redis.exceptions import RedisError, ResponseError

from tenure.backends.protocol import Clock
from tenure.backends.redis import errors as trouble
from tenure.backends.redis.address import Address, Node
from tenure.backends.redis.cluster import Cluster
from tenure.backends.redis.connection import Argument, Wire, packed, pieces
from tenure.backends.redis.durability import Fitness
from tenure.backends.redis.pool import Pool
from tenure.backends.redis.script import Script

ASKING = packed(["ASKING"])

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.5


T = TypeVar("T")

Call = tuple[Script, Sequence[Argument]]
"""A script, and what it is called with."""


class Server:
    def __init__(self, address: Address, *, clock: Clock | None) -> None:
        self.address = address
        self._clock = clock
        self._cluster = Cluster(address) if address.nodes else None
        self._fitness = Fitness(address)
        self._pool = Pool(address, self.connect)
        self._beginnings: dict[str, bytes] = {}

    def now(self) -> datetime | None:
        """Return the moment that a test has set; None if the server's clock counts."""
        return None if self._clock is None else self._clock()

    def run(self, script: Script, arguments: Sequence[Argument], *, may_repeat: bool = True) -> Any:
        """Run a script with these arguments; return what it answers."""
        ends_at = time.monotonic() + self.address.timeout
        pause = SHORTEST_PAUSE
        while True:
            asked: Wire | None = None
            try:
                with self._pool.wire() as asked:
                    return self._run_on(asked, script, arguments)
            except (RedisError, OSError) as exc:
                if asked is not None:
                    self._heed(exc, asked.node)
                is_safe = may_repeat or asked is None or trouble.is_undone(exc)
                # It may be restarting; but one that was never there is told about at once.
                is_worth_it = is_safe and trouble.is_passing(exc) and self._pool.was_open
                if not is_worth_it or time.monotonic() >= ends_at:
                    raise trouble.told(self.address, exc, was_let_in=asked is not None) from exc
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    def run_both(self, first: Call, second: Callable[[], Call], read: Callable[[Any], T]) -> tuple[T, Any] | None:
        """Run two scripts, one after the other, in one round trip; None if there was trouble.

        Then each may have been run or not. Else return what the first answers, as it is read, and what the second does.
        """
        asked: Wire | None = None
        try:
            with self._pool.wire() as asked:
                return asked.ask_both(self._by_name(*first), lambda: self._by_name(*second()), read)
        except (RedisError, OSError) as exc:
            if asked is not None:
                self._heed(exc, asked.node)
            return None

    @property
    def turn(self) -> int:
        """A number that changes when those connected so far may not be at the server that is to be asked."""
        return self._pool.turn

    def connect(self) -> Wire:
        """Return a connection to the server that has the store, for the caller."""
        try:
            return self._connect()
        except (RedisError, OSError) as exc:
            self._heed(exc, None)
            raise

    def close(self) -> None:
        self._pool.close()

    def _connect(self) -> Wire:
        wire = Wire(self.address.connect()) if self._cluster is None else self._cluster.connect()
        try:
            self._fitness.see_to(wire)
        except BaseException:
            wire.close()
            raise
        return wire

    def _heed(self, error: Exception, asked: Node | None) -> None:
        """See to it that the next connection leads to the server that is to be asked now."""
        if not trouble.is_passing(error):
            return
        if trouble.is_elsewhere(error) or trouble.is_silent(error):
            self._pool.renew()
        if self._cluster is not None:
            self._cluster.heed(error, asked)

    def _run_on(self, wire: Wire, script: Script, arguments: Sequence[Argument]) -> Any:
        try:
            return wire.ask(self._by_name(script, arguments))
        except ResponseError as exc:
            code = trouble.code_of(exc)
            if code == "NOSCRIPT":
                # It has forgotten its scripts, or never had this one. Sent whole, it is run and remembered.
                return wire.ask(self._whole(script, arguments))
            if code in {"ASK", "MOVED"} and wire.node is None:
                raise trouble.told(self.address, exc, was_let_in=True) from exc
            if code == "ASK" and wire.node is not None:
                return self._run_at(trouble.named_node(exc, wire.node), self._whole(script, arguments))
            raise

    def _run_at(self, node: Node, request: bytes) -> Any:
        """Ask a node for once that will have the store, and has it already in part."""
        with closing(Wire(self.address.connect(node), node)) as wire:
            wire.ask(ASKING)
            return wire.ask(request)

    def _by_name(self, script: Script, arguments: Sequence[Argument]) -> bytes:
        count = 3 + len(script.keys) + len(arguments)
        return b"*%d\r\n%b%b" % (count, self._beginning_of(script), pieces(arguments))

    def _beginning_of(self, script: Script) -> bytes:
        """Return what is always the same of the request that runs a script by its name."""
        if script.sha not in self._beginnings:
            self._beginnings[script.sha] = pieces(["EVALSHA", script.sha, len(script.keys), *self._keys_of(script)])
        return self._beginnings[script.sha]

    def _whole(self, script: Script, arguments: Sequence[Argument]) -> bytes:
        return packed(["EVAL", script.text, len(script.keys), *self._keys_of(script), *arguments])

    def _keys_of(self, script: Script) -> list[str]:
        return [self.address.key(name) for name in script.keys]
