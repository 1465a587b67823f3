"""Run a worker, or a supervisor of several, with health endpoints and systemd notifications."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure.backends.urls import is_shared
from tenure.cli.store_options import import_user_module
from tenure.cli.work_targets import import_sources
from tenure.core import checks
from tenure.errors import ConfigurationError
from tenure.service import logs
from tenure.service.health import health_server
from tenure.service.status import ServiceStatus
from tenure.service.systemd import SystemdNotifier
from tenure.supervisor import ExitReason, Supervisor, SupervisorConfig, SupervisorLink, SupervisorResult
from tenure.supervisor.config import KILL_MARGIN
from tenure.worker import Worker, stopped_by_signals
from tenure.worker.parent_watch import stop_when_parent_dies
from tenure.worker.sources import AnySource, all_jobs_of
from tenure.worker.summary import Summary

if TYPE_CHECKING:
    from tenure.client.jobs import Jobs
    from tenure.client.worker_options import WorkerOptions

log = logging.getLogger(__name__)

STDIN_FD = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkConfig:
    """The arguments of `tenure work`: the sources, the store and the options of the worker."""

    targets: Sequence[str]
    imports: Sequence[str]
    url: str | None
    options: "WorkerOptions"
    log_format: str
    log_level: str

    @property
    def is_drain(self) -> bool:
        return self.options.get("drain", False)

    def configure_logging(self) -> None:
        """Configure logging. Call before importing the app, which may override the configuration."""
        logs.configure("json" if self.log_format == "json" else "human", self.log_level)

    def sources(self) -> tuple[AnySource, ...]:
        """Import the sources and the modules with tasks."""
        sources = import_sources(self.targets, self.url)
        for module in self.imports:
            import_user_module(module)
        return sources


def run(
    config: WorkConfig, *, parent: SupervisorLink | None = None, health: str | None = None, until_eof: bool = False
) -> Summary:
    """Run a worker in this process until it is stopped; return its summary."""
    if parent is not None:
        # Before importing the app, which may hang.
        parent.exit_with_supervisor(checks.seconds("grace", config.options["grace"]) + KILL_MARGIN)
    sources = config.sources()
    with ExitStack() as opened:
        for source in (*all_jobs_of(sources), *sources):
            opened.enter_context(source)
        if parent is not None:
            for jobs in all_jobs_of(sources):
                _require_shared_store(jobs)
        worker = Worker(sources, config.options, started_jobs=None if parent is None else parent.started_jobs)
        logs.set_worker(worker.name)
        if parent is not None:
            parent.watch(worker)
        if until_eof:
            stop_when_parent_dies(STDIN_FD, worker)
        # The supervisor reports for all its children.
        reporting = report_status(lambda: _status_of(worker), health) if parent is None else nullcontext()
        with stopped_by_signals(worker), reporting:
            worker.start()
            worker.join()
        return worker.summary


def supervise(config: SupervisorConfig, *, health: str | None, until_eof: bool = False) -> SupervisorResult:
    """Run a supervisor in this process until it is stopped, or no worker process can start."""
    supervisor = Supervisor(config)
    if until_eof:
        stop_when_parent_dies(STDIN_FD, supervisor)
    with report_status(supervisor.status, health):
        result = supervisor.run()
    if result.reason in {ExitReason.START_REJECTED, ExitReason.NEVER_READY}:
        log.error("supervisor stopped: %s (see the error above)", result.reason)
    else:
        log.info("supervisor ended: %s; %s", result.reason, result.summary)
    return result


@contextmanager
def report_status(status: Callable[[], ServiceStatus], health: str | None) -> Iterator[None]:
    """Report the service status to systemd, if requested, and on the health port, if there is one."""
    with SystemdNotifier(status):
        if health is None:
            yield
            return
        with health_server(health, status) as server:
            log.info("health and metrics: %s", server.url)
            yield


def worker_command(config: WorkConfig) -> list[str]:
    """Return the command line of a worker process with this configuration."""
    options = config.options
    arguments = [
        *_repeat_option("--import", config.imports),
        *_repeat_option("--queue", options.get("queues") or ()),
        *_repeat_option("--type", options.get("types") or ()),
        *_repeat_option("--url", [config.url] if config.url is not None else []),
        *_repeat_option("--name", [name] if (name := options.get("name")) is not None else []),
        *(f"--{name}={options[name]}" for name in ("concurrency", "lease", "grace")),
        *(["--drain"] if config.is_drain else []),
        f"--log-format={config.log_format}",
        f"--log-level={config.log_level}",
    ]
    # -P: otherwise a module of the app could shadow a module that Python or tenure imports.
    return [sys.executable, "-P", "-m", "tenure.cli", "work", *config.targets, *arguments]


def reap_command(config: WorkConfig) -> list[str]:
    """Return the command line that reaps the claims of a dead worker."""
    return [sys.executable, "-P", "-m", "tenure.cli.reaper", config.url or "", *config.targets]


def _repeat_option(option: str, values: Iterable[str]) -> list[str]:
    return [f"{option}={value}" for value in values]


def _status_of(worker: Worker) -> ServiceStatus:
    status = worker.status()
    return ServiceStatus(workers=(status,), wanted=1, is_stopping=status.is_stopping)


def _require_shared_store(jobs: "Jobs") -> None:
    if not is_shared(jobs._store):
        raise ConfigurationError(
            f"{jobs!r} exists in one process and cannot be shared; use a store such as sqlite:///tenure.db, "
            "or leave out --processes"
        )
