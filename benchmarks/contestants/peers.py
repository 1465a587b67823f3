"""Other queues on SQLite, with their defaults. None can claim or enqueue several jobs at once."""

import json
from pathlib import Path
from typing import Any

from benchmarks.contestants.contract import PAYLOAD


class LitequeueQueue:
    def __init__(self, folder: Path) -> None:
        from litequeue import LiteQueue

        self._queue = LiteQueue(folder / "litequeue.db")

    def enqueue(self) -> None:
        self._queue.put(json.dumps(PAYLOAD))

    def enqueue_many(self, number: int) -> None:
        for _ in range(number):
            self.enqueue()

    def claim_and_complete(self, limit: int) -> int:  # noqa: ARG002 - one at a time
        message = self._queue.pop()
        if message is None:
            return 0
        json.loads(message.data)
        self._queue.done(message.message_id, **_claim_of(message))
        return 1

    def close(self) -> None:
        self._queue.close()


def _claim_of(message: Any) -> dict[str, int]:
    """Return the number of the claim, which later versions, for later Python versions, require."""
    return {"claim_id": message.claim_id} if hasattr(message, "claim_id") else {}


class HueyQueue:
    def __init__(self, folder: Path) -> None:
        from huey import SqliteHuey

        self._storage = SqliteHuey(filename=str(folder / "huey.db")).storage

    def enqueue(self) -> None:
        self._storage.enqueue(json.dumps(PAYLOAD).encode())

    def enqueue_many(self, number: int) -> None:
        for _ in range(number):
            self.enqueue()

    def claim_and_complete(self, limit: int) -> int:  # noqa: ARG002 - one at a time
        data = self._storage.dequeue()
        if data is None:
            return 0
        json.loads(data)
        return 1

    def close(self) -> None:
        self._storage.close()
