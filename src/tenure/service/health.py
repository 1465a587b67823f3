"""Serve the health of a service over HTTP: `/livez`, `/readyz`, `/metrics`.

The threads are daemons without locks or claims, and each request has a short time limit: a slow client neither keeps
the service from exiting nor blocks other clients.
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
from tenure.service.health_checks import liveness_problems, readiness_problems
from tenure.service.metrics import CONTENT_TYPE, exposition
from tenure.service.status import ServiceStatus

log = logging.getLogger(__name__)

DEFAULT_HOST = "127.0.0.1"
MAX_PORT = 65_535
REQUEST_TIMEOUT = 5.0
"""Time limit of a request, in seconds."""
MAX_CONNECTIONS = 32
"""Largest number of open connections. One more closes the oldest."""
CHECK_INTERVAL = 0.2
"""Seconds between two checks for shutdown and for connections past their time limit."""


@dataclass(frozen=True, slots=True)
class HealthAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> HealthAddress:
    """Parse `[HOST:]PORT`; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise _invalid_address(text)
    if (colon and not host) or not re.fullmatch("[0-9]{1,5}", port) or int(port) > MAX_PORT:
        raise _invalid_address(text)
    return HealthAddress(host or DEFAULT_HOST, int(port))


def _invalid_address(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"invalid health address {checks.short_repr(text)}: use PORT or HOST:PORT, for example 9000, 0.0.0.0:9000 or "
        f"[::1]:9000, with a port up to {MAX_PORT}"
    )


@contextmanager
def health_server(address: str, status: Callable[[], ServiceStatus]) -> Iterator["HealthServer"]:
    """Serve the current status at this address while the block runs."""
    server = HealthServer(parse_address(address), status)
    thread = threading.Thread(target=server.serve_forever, args=(CHECK_INTERVAL,), name="tenure-health", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class HealthServer(ThreadingHTTPServer):
    """The constructor binds the address, and raises if that fails."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, address: HealthAddress, status: Callable[[], ServiceStatus]) -> None:
        self.status = status
        self._open_since: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family, _, _, _, socket_address = found[0]
            super().__init__(socket_address, HealthRequestHandler)  # type: ignore[arg-type]
        except (OSError, UnicodeError) as exc:
            raise ConfigurationError(
                f"cannot serve health at {address}: {getattr(exc, 'strerror', None) or exc}; "
                "use an address of this machine and a free port, or port 0 for any free port"
            ) from exc

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{HealthAddress(str(host), int(port))}"

    def server_bind(self) -> None:
        # Not HTTPServer.server_bind: it resolves the host name of this machine, which is not needed and may take long.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open_since[request] = ticks()
            oldest = next(iter(self._open_since)) if len(self._open_since) > MAX_CONNECTIONS else None
        if oldest is not None:
            self._drop(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._remove(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections past their time limit, even if the client still sends a byte now and then."""
        with self._lock:
            overdue = [request for request, since in self._open_since.items() if ticks() - since > REQUEST_TIMEOUT]
        for request in overdue:
            self._drop(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - signature of the base class
        log.debug("health request aborted: %s", sys.exception())

    def _drop(self, request: socket.socket) -> None:
        self._remove(request)
        with suppress(OSError):
            # The thread that serves the connection reads the end, and closes the socket.
            request.shutdown(socket.SHUT_RDWR)

    def _remove(self, request: socket.socket) -> None:
        with self._lock:
            self._open_since.pop(request, None)


class HealthRequestHandler(BaseHTTPRequestHandler):
    """Handle one request. Requests are not logged."""

    server: HealthServer
    timeout = REQUEST_TIMEOUT
    server_version = "tenure"
    sys_version = ""
    error_message_format = "%(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        page = PAGES.get(self.path.partition("?")[0])
        if page is None:
            self._respond(HTTPStatus.NOT_FOUND, f"not found; use {', '.join(PAGES)}\n")
            return
        try:
            response = page(self.server.status())
        except Exception:
            log.exception("service status not available")
            self._respond(HTTPStatus.INTERNAL_SERVER_ERROR, "could not compute service status; see the log\n")
            return
        self._respond(*response)

    do_HEAD = do_GET  # noqa: N815 - name of the base class

    def __getattr__(self, name: str) -> Callable[[], None]:
        # The base class calls `do_` plus the HTTP method.
        if name.startswith("do_"):
            return self._reject_method
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None: ...

    def _reject_method(self) -> None:
        self._respond(HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed; use GET or HEAD\n", Allow="GET, HEAD")

    def _respond(self, status: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8", **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        fixed = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in {**fixed, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _check_response(problems: list[str]) -> tuple[HTTPStatus, str]:
    if not problems:
        return HTTPStatus.OK, "ok\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{each}\n" for each in problems)


PAGES: Mapping[str, Callable[[ServiceStatus], tuple[HTTPStatus, str] | tuple[HTTPStatus, str, str]]] = {
    "/livez": lambda status: _check_response(liveness_problems(status)),
    "/readyz": lambda status: _check_response(readiness_problems(status)),
    "/metrics": lambda status: (HTTPStatus.OK, exposition(status, version("tenure")), CONTENT_TYPE),
}
