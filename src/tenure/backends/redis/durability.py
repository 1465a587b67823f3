"""Check that a server can keep jobs, and log which jobs it may lose."""

import logging
import threading
from typing import NamedTuple

from redis.exceptions import NoPermissionError, ReadOnlyError, ResponseError

from tenure.backends.redis.address import Address
from tenure.backends.redis.connection import RedisConnection, pack_request
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

OLDEST_SUPPORTED = (6, 2)

INFO_REQUEST = pack_request(["INFO"])
GET_SAVE = pack_request(["CONFIG", "GET", "save"])
GET_APPENDFSYNC = pack_request(["CONFIG", "GET", "appendfsync"])


class Losses(NamedTuple):
    """The jobs that are lost when the server is killed, and when the machine loses power."""

    by_crash: str
    by_power_cut: str


NO_LOSSES = Losses("nothing", "nothing")
LOSSES_BY_APPENDFSYNC = {
    "always": NO_LOSSES,
    "everysec": Losses("nothing", "up to one second of writes"),
    "no": Losses("nothing", "the writes that the kernel had not flushed, often 30 seconds"),
}
LOSSES_WITH_SNAPSHOTS = Losses("everything since the last snapshot", "everything since the last snapshot")
LOSSES_WITHOUT_PERSISTENCE = Losses("all jobs", "all jobs")


class ServerCheck:
    """Checks every new connection of a store handle: a new connection may lead to another server."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._is_logged = threading.Lock()
        """Acquired, and never released, by the thread that logs the warning."""

    def check(self, connection: RedisConnection) -> None:
        """Raise if the server cannot keep jobs; log once if the server may lose jobs."""
        try:
            facts = _read_info(connection)
        except NoPermissionError as exc:
            self._log_unknown(exc)
            return
        self._reject_unsuitable(facts)
        if not self._is_logged.locked():
            self._log_losses(connection, appends=facts.get("aof_enabled") == "1")

    def _reject_unsuitable(self, info: dict[str, str]) -> None:
        store = repr(self._address.shown)
        version = info.get("redis_version", "")
        if _parse_version(version) < OLDEST_SUPPORTED:
            raise ConfigurationError(f"{store} runs Redis {version}; use Redis 6.2 or later, or Valkey")
        if info.get("role") == "slave":
            raise ReadOnlyError(f"its primary is {info.get('master_host')}:{info.get('master_port')}")
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ConfigurationError(
                f"{store} evicts keys, and so jobs, when memory is short: its 'maxmemory-policy' is {policy!r}; "
                "set 'maxmemory-policy' to 'noeviction', or use another server"
            )

    def _log_losses(self, connection: RedisConnection, *, appends: bool) -> None:
        try:
            setting = _read_setting(connection, GET_APPENDFSYNC if appends else GET_SAVE)
        except ResponseError as exc:  # managed services often disable CONFIG
            self._log_unknown(exc)
            return
        losses = _expected_losses(setting, appends=appends)
        if losses is not NO_LOSSES and self._is_logged.acquire(blocking=False):
            facts = {"appendonly": appends, "appendfsync" if appends else "save": setting}
            log.warning(
                "server may lose jobs: a crash loses %s, a power cut loses %s; see docs/redis.md",
                *losses,
                extra={"store": self._address.shown, **facts},
            )

    def _log_unknown(self, reason: Exception) -> None:
        if self._is_logged.acquire(blocking=False):
            facts = {"store": self._address.shown, "reason": str(reason)}
            log.info("persistence settings of the server not readable: %s", reason, extra=facts)


def _expected_losses(setting: str, *, appends: bool) -> Losses:
    if appends:
        return LOSSES_BY_APPENDFSYNC.get(setting, NO_LOSSES)
    return LOSSES_WITH_SNAPSHOTS if setting else LOSSES_WITHOUT_PERSISTENCE


def _read_info(connection: RedisConnection) -> dict[str, str]:
    lines = connection.execute(INFO_REQUEST).decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _read_setting(connection: RedisConnection, request: bytes) -> str:
    response = connection.execute(request)
    return response[1].decode() if response else ""


def _parse_version(text: str) -> tuple[int, ...]:
    """Parse a version for comparison. A version that is not numeric passes the check."""
    parts = text.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else OLDEST_SUPPORTED
