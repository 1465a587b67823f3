"""See that a server is fit to keep jobs, and say what it may lose."""

import logging
import threading
from typing import NamedTuple

from redis.exceptions import NoPermissionError, ReadOnlyError, ResponseError

from tenure.backends.redis.address import Address
from tenure.backends.redis.connection import Wire, packed
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

OLDEST = (6, 2)

INFO = packed(["INFO"])
SAVE = packed(["CONFIG", "GET", "save"])
APPENDFSYNC = packed(["CONFIG", "GET", "appendfsync"])


class Losses(NamedTuple):
    """What is lost when the server is killed, and what when the machine is without power."""

    by_crash: str
    by_power_cut: str


NOTHING = Losses("nothing", "nothing")
OF_SYNCS = {
    "always": NOTHING,
    "everysec": Losses("nothing", "up to one second"),
    "no": Losses("nothing", "what the system had not written, often 30 seconds"),
}
OF_SNAPSHOTS = Losses("everything since the last snapshot", "everything since the last snapshot")
OF_NOTHING = Losses("everything", "everything")


class Fitness:
    """What one handle finds of the server. Each connection is looked at: it may lead to another."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._is_said = threading.Lock()
        """Taken, and never given back, by the thread that says what may be lost."""

    def see_to(self, wire: Wire) -> None:
        """Raise if the server cannot keep jobs; say once if it may lose them."""
        try:
            facts = _facts(wire)
        except NoPermissionError as exc:
            self._say_unknown(exc)
            return
        self._refuse(facts)
        if not self._is_said.locked():
            self._see_to_losses(wire, appends=facts.get("aof_enabled") == "1")

    def _refuse(self, facts: dict[str, str]) -> None:
        store = repr(self._address.shown)
        version = facts.get("redis_version", "")
        if _version(version) < OLDEST:
            raise ConfigurationError(f"{store} is Redis {version}; at least 6.2 is needed, or any Valkey")
        if facts.get("role") == "slave":
            raise ReadOnlyError(f"its primary is {facts.get('master_host')}:{facts.get('master_port')}")
        policy = facts.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ConfigurationError(
                f"{store} throws keys away when memory is short, and jobs with them: its 'maxmemory-policy' is "
                f"{policy!r}; set that to 'noeviction', or use another server"
            )

    def _see_to_losses(self, wire: Wire, *, appends: bool) -> None:
        try:
            setting = _setting(wire, APPENDFSYNC if appends else SAVE)
        except ResponseError as exc:  # servers that others run for us have no CONFIG
            self._say_unknown(exc)
            return
        losses = _losses(setting, appends=appends)
        if losses is not NOTHING and self._is_said.acquire(blocking=False):
            facts = {"appendonly": appends, "appendfsync" if appends else "save": setting}
            log.warning(
                "the server may lose what it has taken: in a crash %s, in a power cut %s; see docs/redis.md",
                *losses,
                extra={"store": self._address.shown, **facts},
            )

    def _say_unknown(self, reason: Exception) -> None:
        if self._is_said.acquire(blocking=False):
            facts = {"store": self._address.shown, "reason": str(reason)}
            log.info("it cannot be told what the server loses by a crash or a power cut: %s", reason, extra=facts)


def _losses(setting: str, *, appends: bool) -> Losses:
    if appends:
        return OF_SYNCS.get(setting, NOTHING)
    return OF_SNAPSHOTS if setting else OF_NOTHING


def _facts(wire: Wire) -> dict[str, str]:
    lines = wire.ask(INFO).decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _setting(wire: Wire, question: bytes) -> str:
    answer = wire.ask(question)
    return answer[1].decode() if answer else ""


def _version(text: str) -> tuple[int, ...]:
    """Return what can be compared; one that is not a number is as new as can be."""
    parts = text.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else OLDEST
