"""Word to systemd, as its end of the line hears it."""

import os
import secrets
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tenure.service.status import Condition
from tenure.service.systemd import MORE_TIME, STATUS_EVERY, Notifier
from tests.service.conditions import CUT_OFF, QUIET, STARTING, WELL, service_of
from tests.worker.looking import DEADLINE

STATUS = "STATUS=1 of 1 workers, 0 running"
EXTEND = "EXTEND_TIMEOUT_USEC=30000000"


class Systemd:
    """The other end of the line."""

    def __init__(self, address: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address, "PATH": "/bin"}
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(address.replace("@", "\0"))
        self.line.settimeout(DEADLINE)

    def heard(self) -> list[str]:
        """Return the words of the next message."""
        return self.line.recv(4096).decode().split("\n")

    def heard_nothing(self) -> bool:
        return select.select([self.line], [], [], 0)[0] == []


class Service:
    """What a notifier looks at, and the clock that it looks at it by."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.condition: Condition = service_of(WELL)

    def ticks(self) -> float:
        return self.now

    def notifier(self, environment: dict[str, str]) -> Notifier:
        return Notifier(lambda: self.condition, environment, self.ticks)


@pytest.fixture
def systemd() -> Iterator[Systemd]:
    # Not pytest's own folder, whose path may be longer than a socket's may be.
    with TemporaryDirectory(prefix="tenure-") as folder:
        systemd = Systemd(str(Path(folder) / "notify"))
        yield systemd
        systemd.line.close()


@pytest.fixture
def service() -> Service:
    return Service()


def test_a_service_is_said_to_be_ready_when_it_is_and_once(systemd: Systemd, service: Service) -> None:
    notifier = service.notifier(systemd.environment)
    service.condition = service_of(STARTING)
    notifier.beat()
    service.condition = service_of(WELL)
    notifier.beat()
    service.now += 3600
    notifier.beat()

    assert systemd.heard() == ["STATUS=worker w2 (process 4711) has not begun"]
    assert systemd.heard() == ["READY=1", STATUS]
    assert systemd.heard_nothing()


def test_a_status_is_told_when_it_changes_and_not_too_often(systemd: Systemd, service: Service) -> None:
    notifier = service.notifier(systemd.environment)
    notifier.beat()
    service.condition = service_of(replace(WELL, running=1_000))
    notifier.beat()
    service.now += STATUS_EVERY
    notifier.beat()

    assert systemd.heard() == ["READY=1", STATUS]
    assert systemd.heard() == ["STATUS=1 of 1 workers, 1,000 running"]


def test_a_sign_of_life_is_given_after_half_of_the_time(systemd: Systemd, service: Service) -> None:
    notifier = service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid())})
    notifier.beat()
    service.now += 9.9
    notifier.beat()
    service.now += 0.1
    notifier.beat()

    assert systemd.heard() == ["READY=1", "WATCHDOG=1", STATUS]
    assert systemd.heard() == ["WATCHDOG=1"]
    assert systemd.heard_nothing()


@pytest.mark.parametrize("usec", ["", "0", "-1", "soon"])
def test_without_a_time_no_sign_of_life_is_given(systemd: Systemd, service: Service, usec: str) -> None:
    service.notifier(systemd.environment | {"WATCHDOG_USEC": usec}).beat()

    assert systemd.heard() == ["READY=1", STATUS]


def test_a_sign_of_life_that_another_process_owes_is_not_given(systemd: Systemd, service: Service) -> None:
    service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "1"}).beat()

    assert systemd.heard() == ["READY=1", STATUS]


def test_a_service_that_stands_still_gives_no_sign_of_life(systemd: Systemd, service: Service) -> None:
    notifier = service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000"})
    service.condition = service_of(WELL, QUIET, wanted=2)
    notifier.beat()
    service.condition = service_of(WELL, wanted=2)
    notifier.beat()

    assert systemd.heard() == ["READY=1", "STATUS=worker w5 (process 4711) has been quiet for 61 s"]
    assert systemd.heard() == ["WATCHDOG=1", "STATUS=1 of 2 workers, 0 running"]


def test_a_service_whose_store_is_away_gives_signs_of_life(systemd: Systemd, service: Service) -> None:
    service.condition = service_of(CUT_OFF)

    service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000"}).beat()

    assert systemd.heard() == ["WATCHDOG=1", "STATUS=worker w4 (process 4711) gets no answer from its store"]


def test_a_service_that_stops_says_so_once_and_asks_for_time_as_long_as_it_turns(
    systemd: Systemd, service: Service
) -> None:
    notifier = service.notifier(systemd.environment)
    notifier.beat()
    service.now += 1
    service.condition = service_of(WELL, is_stopping=True)
    notifier.beat()
    service.now += MORE_TIME / 2
    notifier.beat()
    service.now += MORE_TIME / 2
    service.condition = service_of(QUIET, is_stopping=True)
    notifier.beat()

    assert systemd.heard() == ["READY=1", STATUS]
    assert systemd.heard() == ["STOPPING=1", EXTEND, "STATUS=the service is stopping"]
    assert systemd.heard() == [EXTEND]
    assert systemd.heard() == ["STATUS=worker w5 (process 4711) has been quiet for 61 s"]


def test_what_was_not_heard_is_told_again(systemd: Systemd, service: Service) -> None:
    address = Path(systemd.environment["NOTIFY_SOCKET"])
    notifier = service.notifier(systemd.environment)
    away = address.rename(address.with_name("away"))
    notifier.beat()
    away.rename(address)
    notifier.beat()

    assert systemd.heard() == ["READY=1", STATUS]


def test_a_condition_that_cannot_be_told_ends_nothing_and_is_logged_once(
    systemd: Systemd, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    def condition() -> Condition:
        raise RuntimeError("no luck")

    notifier = Notifier(condition, systemd.environment | {"WATCHDOG_USEC": "20000000"}, service.ticks)
    notifier.beat()
    notifier.beat()

    assert systemd.heard_nothing()
    assert len(caplog.records) == 1


def test_as_a_block_it_tells_by_itself_and_at_the_end_that_it_stops(systemd: Systemd, service: Service) -> None:
    with Notifier(lambda: service.condition, systemd.environment | {"WATCHDOG_USEC": "40000"}):
        first, second = systemd.heard(), systemd.heard()
    while (last := systemd.heard()) == ["WATCHDOG=1"]:
        pass

    assert first == ["READY=1", "WATCHDOG=1", STATUS]
    assert second == ["WATCHDOG=1"]
    assert last == ["STOPPING=1"]


def test_an_abstract_name_is_reached(service: Service) -> None:
    systemd = Systemd(f"@tenure-{secrets.token_hex(8)}")

    with systemd.line:
        service.notifier(systemd.environment).beat()

        assert systemd.heard() == ["READY=1", STATUS]


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative", "/no/such/place", f"/{'x' * 200}"])
def test_without_anybody_to_tell_nothing_is_done(service: Service, address: str) -> None:
    with service.notifier({"NOTIFY_SOCKET": address}) as notifier:
        notifier.beat()


def test_programs_that_handlers_start_cannot_speak_for_the_service(
    systemd: Systemd, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.setenv(name, systemd.environment["NOTIFY_SOCKET"])

    Notifier(lambda: service.condition)

    script = "import os; print([name for name in os.environ if 'NOTIFY' in name or 'WATCHDOG' in name])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"
