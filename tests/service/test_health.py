"""The health endpoints, requested over HTTP."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields, replace

import httpx
import pytest

import tenure
from tenure.errors import ConfigurationError
from tenure.service import health
from tenure.service.health import HealthServer, health_server, parse_address
from tenure.service.metrics import CONTENT_TYPE, exposition
from tenure.service.status import ServiceStatus
from tenure.worker.status import WorkerStatus
from tenure.worker.summary import Summary
from tests.service.conditions import CUT_OFF, QUIET, STARTING, STOPPING, WELL, service_of
from tests.worker.looking import DEADLINE, until

Ask = Callable[[str, ServiceStatus], httpx.Response]

LABEL = r'(?:\{([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"\})?'
SAMPLE = re.compile(rf"([a-z_]+){LABEL} ([0-9]+(?:\.[0-9]+)?)")


@pytest.fixture
def ask() -> Iterator[Ask]:
    """A function that requests a path while the service has the given status."""
    now = [service_of(WELL)]
    with health_server("0", lambda: now[0]) as server, httpx.Client(trust_env=False, timeout=DEADLINE) as client:

        def ask(path: str, condition: ServiceStatus) -> httpx.Response:
            now[0] = condition
            return client.get(server.url + path)

        yield ask


def connected_to(server: HealthServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), DEADLINE)


def samples_of(text: str) -> dict[tuple[str, str | None], float]:
    """Parse Prometheus text format; raise an assertion error for invalid text."""
    assert text.endswith("\n")
    samples: dict[tuple[str, str | None], float] = {}
    name = kind = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, kind = line.split(" ", 3)[2], ""
            assert all(name != known for known, _ in samples), "the samples of a metric are contiguous"
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == name
            kind = line.split(" ")[3]
            assert kind == ("counter" if name.endswith("_total") else "gauge")
        else:
            found = SAMPLE.fullmatch(line)
            assert found is not None, line
            assert kind, "TYPE comes before the samples"
            assert found[1] == name
            label = found[3] and re.sub(r"\\(.)", lambda each: {"n": "\n"}.get(each[1], each[1]), found[3])
            assert (name, label) not in samples
            samples[name, label] = float(found[4])
    return samples


@pytest.mark.parametrize(
    "condition",
    [
        service_of(WELL),
        service_of(wanted=2),
        service_of(STARTING),
        service_of(STOPPING, is_stopping=True),
        service_of(CUT_OFF),
        service_of(replace(QUIET, blocked_for=60.0)),
    ],
)
def test_a_service_is_alive_as_long_as_no_worker_stands_still(ask: Ask, condition: ServiceStatus) -> None:
    answer = ask("/livez", condition)

    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_a_supervisor_that_stands_still_is_told(ask: Ask) -> None:
    answer = ask("/livez", ServiceStatus(workers=(WELL,), wanted=1, blocked_for=61.4))

    assert (answer.status_code, answer.text) == (503, "the supervisor has been blocked for 61 s\n")


def test_a_worker_that_stands_still_is_told(ask: Ask) -> None:
    answer = ask("/livez", service_of(WELL, QUIET, replace(QUIET, name="w6", pid=4712, blocked_for=300)))

    assert answer.status_code == 503
    assert answer.text.splitlines() == [
        "worker w5 (process 4711) has been blocked for 61 s",
        "worker w6 (process 4712) has been blocked for 300 s",
    ]


@pytest.mark.parametrize("workers", [[WELL], [STARTING, WELL], [STOPPING, CUT_OFF, WELL]])
def test_a_service_is_ready_when_one_worker_is(ask: Ask, workers: list[WorkerStatus]) -> None:
    answer = ask("/readyz", service_of(*workers, wanted=3))

    assert (answer.status_code, answer.text) == (200, "ok\n")


@pytest.mark.parametrize(
    ("condition", "complaints"),
    [
        (service_of(wanted=2), ["no worker is running, expected 2"]),
        (service_of(WELL, is_stopping=True), ["the service is stopping"]),
        (
            service_of(STARTING, STOPPING, CUT_OFF, wanted=3),
            [
                "worker w2 (process 4711) has not started",
                "worker w3 (process 4711) is stopping",
                "worker w4 (process 4711) cannot reach its store",
            ],
        ),
    ],
)
def test_a_service_that_is_not_ready_says_why(ask: Ask, condition: ServiceStatus, complaints: list[str]) -> None:
    answer = ask("/readyz", condition)

    assert (answer.status_code, answer.text.splitlines()) == (503, complaints)


def test_metrics_count_what_living_and_ended_workers_did(ask: Ask) -> None:
    every = {each.name: number for number, each in enumerate(fields(Summary), 1)}
    busy = replace(WELL, running=3, buffered=2, blocked_for=1.5, summary=Summary(**every))
    condition = replace(
        service_of(busy, replace(CUT_OFF, running=1), wanted=4), deaths=5, ended_summary=Summary(completed=100, lost=7)
    )

    answer = ask("/metrics", condition)

    assert answer.headers["content-type"] == CONTENT_TYPE
    runs = every | {"completed": 100 + every["completed"], "lost": 7 + every["lost"]}
    prevented = runs.pop("prevented")
    expected = {("tenure_runs_total", outcome): float(number) for outcome, number in runs.items()}
    assert samples_of(answer.text) == expected | {
        ("tenure_info", tenure.__version__): 1,
        ("tenure_prevented_total", None): prevented,
        ("tenure_running", None): 4,
        ("tenure_waiting", None): 2,
        ("tenure_workers", None): 2,
        ("tenure_workers_wanted", None): 4,
        ("tenure_worker_deaths_total", None): 5,
        ("tenure_store_failing", None): 1,
        ("tenure_quiet_seconds", None): 1.5,
    }


def test_metrics_of_a_service_without_workers_are_there(ask: Ask) -> None:
    samples = samples_of(ask("/metrics", service_of()).text)

    assert samples["tenure_runs_total", "unrecorded"] == samples["tenure_quiet_seconds", None] == 0
    assert samples["tenure_store_failing", None] == samples["tenure_workers", None] == 0


def test_what_stands_in_a_label_is_escaped() -> None:
    text = exposition(service_of(WELL), 'a\\b"c\nd')

    assert ("tenure_info", 'a\\b"c\nd') in samples_of(text)


def test_other_pages_and_methods_are_refused_in_plain_text() -> None:
    with (
        health_server("0", service_of) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=DEADLINE) as client,
    ):
        missing = client.get("/jobs")
        refused = [client.request(method, "/livez") for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW")]
        head = client.head("/livez?verbose")

    assert (missing.status_code, missing.text) == (404, "not found; use /livez, /readyz, /metrics\n")
    assert {(each.status_code, each.headers["allow"]) for each in refused} == {(405, "GET, HEAD")}
    assert (head.status_code, head.text, head.headers["content-length"]) == (200, "", "3")


def test_a_condition_that_cannot_be_told_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    def condition() -> ServiceStatus:
        raise RuntimeError("no luck")

    with health_server("0", condition) as server:
        answer = httpx.get(f"{server.url}/livez", trust_env=False, timeout=DEADLINE)

    assert (answer.status_code, answer.text) == (500, "could not compute service status; see the log\n")
    assert "no luck" in caplog.text


def test_who_asks_and_says_nothing_is_dropped_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_TIMEOUT", 2.0)
    monkeypatch.setattr(health.HealthRequestHandler, "timeout", None)  # as for a client that sends a byte now and then

    with health_server("0", lambda: service_of(WELL)) as server, ExitStack() as stack:
        silent = [stack.enter_context(connected_to(server)) for _ in range(3)]
        silent[0].sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
        answer = httpx.get(f"{server.url}/livez", trust_env=False, timeout=DEADLINE)

        assert answer.status_code == 200
        assert [each.recv(1) for each in silent] == [b"", b"", b""]


def test_of_too_many_who_ask_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(health, "REQUEST_TIMEOUT", 10 * DEADLINE)
    monkeypatch.setattr(health.HealthRequestHandler, "timeout", None)

    with health_server("0", lambda: service_of(WELL)) as server, ExitStack() as stack:
        silent = [stack.enter_context(connected_to(server)) for _ in range(20)]
        answer = httpx.get(f"{server.url}/livez", trust_env=False, timeout=DEADLINE)

        assert answer.status_code == 200
        assert silent[0].recv(1) == b""
        until(lambda: sum("process_request_thread" in each.name for each in threading.enumerate()) <= 4)


def test_an_end_does_not_wait_for_who_asks() -> None:
    with health_server("0", service_of) as server:
        silent = connected_to(server)

    with silent, pytest.raises(OSError, match="refused"):
        connected_to(server)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("9000", "127.0.0.1:9000"), ("0.0.0.0:80", "0.0.0.0:80"), ("[::1]:9000", "[::1]:9000"), ("host:0", "host:0")],
)
def test_an_address_is_a_port_or_a_host_and_a_port(text: str, shown: str) -> None:
    assert str(parse_address(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["", "http", "host", "host:", ":9000", "[]:9000", "::1:9000", "[::1]", "9000:host", "65536", "-1", "٣"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigurationError, match=re.escape("for example 9000, 0.0.0.0:9000 or [::1]:9000, with a port")
    ):
        parse_address(text)


def test_an_address_that_cannot_be_had_is_refused_with_a_remedy() -> None:
    with health_server("0", service_of) as server:
        taken = f"127.0.0.1:{server.server_port}"
        with pytest.raises(ConfigurationError, match=f"at {taken}: .*in use; use .* a free port"):
            health_server(taken, service_of).__enter__()

    with pytest.raises(ConfigurationError, match=r"at no\.such\.host\.invalid:1: .*; use an address of this"):
        health_server("no.such.host.invalid:1", service_of).__enter__()
    with pytest.raises(ConfigurationError, match="use an address of this machine"):
        health_server(f"{'x' * 70}:1", service_of).__enter__()
