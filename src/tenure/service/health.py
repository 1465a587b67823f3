"""Tells over HTTP how a service is: `/livez`, `/readyz`, `/metrics`.

Its threads are daemons that hold nothing, and each question has little time: whoever asks, slowly or not at all, keeps
neither the service from ending nor others from being answered.
"""

import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from socketserver import TCPServer
from typing import Any

from tenure.client.keeper import ticks
from tenure.core import checks
from tenure.errors import ConfigurationError
from tenure.service.health_checks import against_life, against_readiness
from tenure.service.metrics import CONTENT_TYPE, exposition
from tenure.service.status import Condition

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
GREATEST_PORT = 65_535
PATIENCE = 5.0
"""Seconds that a question may take."""
MOST_OPEN = 32
"""How many questions may be open. For one more, the oldest is dropped."""
STEP = 0.2
"""Seconds after which the end of the service, or of somebody's time, is noticed."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str) -> Address:
    """Return what `[HOST:]PORT` means; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise _refused(text)
    if (colon and not host) or not re.fullmatch("[0-9]{1,5}", port) or int(port) > GREATEST_PORT:
        raise _refused(text)
    return Address(host or HOST, int(port))


def _refused(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"the address for health must be PORT or HOST:PORT, such as 9000, 0.0.0.0:9000 or [::1]:9000, "
        f"with a port up to {GREATEST_PORT}, not {checks.shown(text)}"
    )


@contextmanager
def health_server(address: str, condition: Callable[[], Condition]) -> Iterator["HealthServer"]:
    """Answer at this address while the block runs, by what the condition is when it is asked."""
    server = HealthServer(address_of(address), condition)
    thread = threading.Thread(target=server.serve_forever, args=(STEP,), name="tenure-health", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class HealthServer(ThreadingHTTPServer):
    """Bound when it is made: an address that cannot be had is told at once."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_OPEN

    def __init__(self, address: Address, condition: Callable[[], Condition]) -> None:
        self.condition = condition
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family, _, _, _, place = found[0]
            super().__init__(place, Answering)  # type: ignore[arg-type]
        except (OSError, UnicodeError) as exc:
            raise ConfigurationError(
                f"health cannot be served at {address}: {getattr(exc, 'strerror', None) or exc}; "
                "choose an address of this machine and a free port, or port 0 for any"
            ) from exc

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{Address(str(host), int(port))}"

    def server_bind(self) -> None:
        # That of HTTPServer asks the name service for this machine's name, which may take long, and nobody needs.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = ticks()
            oldest = next(iter(self._open)) if len(self._open) > MOST_OPEN else None
        if oldest is not None:
            self._drop(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._forget(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Drop those whose time is over: a byte now and then does not prolong it."""
        with self._lock:
            overdue = [request for request, since in self._open.items() if ticks() - since > PATIENCE]
        for request in overdue:
            self._drop(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as the base class has it
        log.debug("a question about health was broken off: %s", sys.exception())

    def _drop(self, request: socket.socket) -> None:
        self._forget(request)
        with suppress(OSError):
            # Its thread, which reads from it, finds its end, and closes it.
            request.shutdown(socket.SHUT_RDWR)

    def _forget(self, request: socket.socket) -> None:
        with self._lock:
            self._open.pop(request, None)


class Answering(BaseHTTPRequestHandler):
    """Answers one question. Nobody is logged for asking."""

    server: HealthServer
    timeout = PATIENCE
    server_version = "tenure"
    sys_version = ""
    error_message_format = "%(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        page = PAGES.get(self.path.partition("?")[0])
        if page is None:
            self._say(HTTPStatus.NOT_FOUND, f"there is {', '.join(PAGES)}\n")
            return
        try:
            answer = page(self.server.condition())
        except Exception:
            log.exception("how the service is could not be told")
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, "it could not be told; the log has the reason\n")
            return
        self._say(*answer)

    do_HEAD = do_GET  # noqa: N815 - as the base class calls it

    def __getattr__(self, name: str) -> Callable[[], None]:
        # The base class looks for a method named after that of the request.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None: ...

    def _refuse(self) -> None:
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, "ask with GET or HEAD\n", Allow="GET, HEAD")

    def _say(self, status: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8", **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        fixed = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in {**fixed, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _judged(complaints: list[str]) -> tuple[HTTPStatus, str]:
    if not complaints:
        return HTTPStatus.OK, "ok\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{each}\n" for each in complaints)


PAGES: Mapping[str, Callable[[Condition], tuple[HTTPStatus, str] | tuple[HTTPStatus, str, str]]] = {
    "/livez": lambda condition: _judged(against_life(condition)),
    "/readyz": lambda condition: _judged(against_readiness(condition)),
    "/metrics": lambda condition: (HTTPStatus.OK, exposition(condition, version("tenure")), CONTENT_TYPE),
}
