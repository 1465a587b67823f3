"""Messages to systemd, received on the notification socket."""

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

from tenure.service.status import ServiceStatus
from tenure.service.systemd import STATUS_INTERVAL, TIMEOUT_EXTENSION, SystemdNotifier
from tests.service.conditions import CUT_OFF, QUIET, STARTING, WELL, service_of
from tests.worker.looking import DEADLINE

STATUS = "STATUS=1 of 1 workers, 0 running"
EXTEND = "EXTEND_TIMEOUT_USEC=30000000"


class Systemd:
    """A fake systemd that receives on the notification socket."""

    def __init__(self, address: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address, "PATH": "/bin"}
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(address.replace("@", "\0"))
        self.line.settimeout(DEADLINE)

    def heard(self) -> list[str]:
        """Return the lines of the next message."""
        return self.line.recv(4096).decode().split("\n")

    def heard_nothing(self) -> bool:
        return select.select([self.line], [], [], 0)[0] == []


class Service:
    """The status and the clock that a notifier reads."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.condition: ServiceStatus = service_of(WELL)

    def ticks(self) -> float:
        return self.now

    def notifier(self, environment: dict[str, str]) -> SystemdNotifier:
        return SystemdNotifier(lambda: self.condition, environment, self.ticks)


@pytest.fixture
def systemd() -> Iterator[Systemd]:
    # The path of `tmp_path` can exceed the limit for socket paths.
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
    notifier.update()
    service.condition = service_of(WELL)
    notifier.update()
    service.now += 3600
    notifier.update()

    assert systemd.heard() == ["STATUS=worker w2 (process 4711) has not started"]
    assert systemd.heard() == ["READY=1", STATUS]
    assert systemd.heard_nothing()


def test_a_status_is_told_when_it_changes_and_not_too_often(systemd: Systemd, service: Service) -> None:
    notifier = service.notifier(systemd.environment)
    notifier.update()
    service.condition = service_of(replace(WELL, running=1_000))
    notifier.update()
    service.now += STATUS_INTERVAL
    notifier.update()

    assert systemd.heard() == ["READY=1", STATUS]
    assert systemd.heard() == ["STATUS=1 of 1 workers, 1,000 running"]


def test_a_sign_of_life_is_given_after_half_of_the_time(systemd: Systemd, service: Service) -> None:
    notifier = service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid())})
    notifier.update()
    service.now += 9.9
    notifier.update()
    service.now += 0.1
    notifier.update()

    assert systemd.heard() == ["READY=1", "WATCHDOG=1", STATUS]
    assert systemd.heard() == ["WATCHDOG=1"]
    assert systemd.heard_nothing()


@pytest.mark.parametrize("usec", ["", "0", "-1", "soon"])
def test_without_a_time_no_sign_of_life_is_given(systemd: Systemd, service: Service, usec: str) -> None:
    service.notifier(systemd.environment | {"WATCHDOG_USEC": usec}).update()

    assert systemd.heard() == ["READY=1", STATUS]


def test_a_sign_of_life_that_another_process_owes_is_not_given(systemd: Systemd, service: Service) -> None:
    service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "1"}).update()

    assert systemd.heard() == ["READY=1", STATUS]


def test_a_service_that_stands_still_gives_no_sign_of_life(systemd: Systemd, service: Service) -> None:
    notifier = service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000"})
    service.condition = service_of(WELL, QUIET, wanted=2)
    notifier.update()
    service.condition = service_of(WELL, wanted=2)
    notifier.update()

    assert systemd.heard() == ["READY=1", "STATUS=worker w5 (process 4711) has been blocked for 61 s"]
    assert systemd.heard() == ["WATCHDOG=1", "STATUS=1 of 2 workers, 0 running"]


def test_a_service_whose_store_is_away_gives_signs_of_life(systemd: Systemd, service: Service) -> None:
    service.condition = service_of(CUT_OFF)

    service.notifier(systemd.environment | {"WATCHDOG_USEC": "20000000"}).update()

    assert systemd.heard() == ["WATCHDOG=1", "STATUS=worker w4 (process 4711) cannot reach its store"]


def test_a_service_that_stops_says_so_once_and_asks_for_time_as_long_as_it_turns(
    systemd: Systemd, service: Service
) -> None:
    notifier = service.notifier(systemd.environment)
    notifier.update()
    service.now += 1
    service.condition = service_of(WELL, is_stopping=True)
    notifier.update()
    service.now += TIMEOUT_EXTENSION / 2
    notifier.update()
    service.now += TIMEOUT_EXTENSION / 2
    service.condition = service_of(QUIET, is_stopping=True)
    notifier.update()

    assert systemd.heard() == ["READY=1", STATUS]
    assert systemd.heard() == ["STOPPING=1", EXTEND, "STATUS=the service is stopping"]
    assert systemd.heard() == [EXTEND]
    assert systemd.heard() == ["STATUS=worker w5 (process 4711) has been blocked for 61 s"]


def test_what_was_not_heard_is_told_again(systemd: Systemd, service: Service) -> None:
    address = Path(systemd.environment["NOTIFY_SOCKET"])
    notifier = service.notifier(systemd.environment)
    away = address.rename(address.with_name("away"))
    notifier.update()
    away.rename(address)
    notifier.update()

    assert systemd.heard() == ["READY=1", STATUS]


def test_a_condition_that_cannot_be_told_ends_nothing_and_is_logged_once(
    systemd: Systemd, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    def condition() -> ServiceStatus:
        raise RuntimeError("no luck")

    notifier = SystemdNotifier(condition, systemd.environment | {"WATCHDOG_USEC": "20000000"}, service.ticks)
    notifier.update()
    notifier.update()

    assert systemd.heard_nothing()
    assert len(caplog.records) == 1


def test_as_a_block_it_tells_by_itself_and_at_the_end_that_it_stops(systemd: Systemd, service: Service) -> None:
    with SystemdNotifier(lambda: service.condition, systemd.environment | {"WATCHDOG_USEC": "40000"}):
        first, second = systemd.heard(), systemd.heard()
    while (last := systemd.heard()) == ["WATCHDOG=1"]:
        pass

    assert first == ["READY=1", "WATCHDOG=1", STATUS]
    assert second == ["WATCHDOG=1"]
    assert last == ["STOPPING=1"]


def test_an_abstract_name_is_reached(service: Service) -> None:
    systemd = Systemd(f"@tenure-{secrets.token_hex(8)}")

    with systemd.line:
        service.notifier(systemd.environment).update()

        assert systemd.heard() == ["READY=1", STATUS]


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative", "/no/such/place", f"/{'x' * 200}"])
def test_without_anybody_to_tell_nothing_is_done(service: Service, address: str) -> None:
    with service.notifier({"NOTIFY_SOCKET": address}) as notifier:
        notifier.update()


def test_programs_that_handlers_start_cannot_speak_for_the_service(
    systemd: Systemd, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.setenv(name, systemd.environment["NOTIFY_SOCKET"])

    SystemdNotifier(lambda: service.condition)

    script = "import os; print([name for name in os.environ if 'NOTIFY' in name or 'WATCHDOG' in name])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"
