"""A worker, or a supervisor of several, as `tenure work` runs it: with health, and word to systemd."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure.backends.urls import is_shared
from tenure.cli.store_options import import_named
from tenure.cli.work_targets import sources_in
from tenure.core import checks
from tenure.errors import ConfigurationError
from tenure.service import logs
from tenure.service.health import health_server
from tenure.service.status import Condition
from tenure.service.systemd import Notifier
from tenure.supervisor import Ending, How, Plan, Supervised, Supervisor
from tenure.supervisor.config import MARGIN
from tenure.worker import Worker, stopped_by_signals
from tenure.worker.parent_watch import stop_at_end_of
from tenure.worker.sources import AnySource, homes_of
from tenure.worker.summary import Summary

if TYPE_CHECKING:
    from tenure.client.jobs import Jobs
    from tenure.client.worker_options import WorkerOptions

log = logging.getLogger(__name__)

INPUT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Whose tasks to run, where, and how."""

    targets: Sequence[str]
    imports: Sequence[str]
    url: str | None
    options: "WorkerOptions"
    log_format: str
    log_level: str

    @property
    def is_drain(self) -> bool:
        return self.options.get("drain", False)

    def log(self) -> None:
        """Have this process log as it is to; before the app is imported, which may decide otherwise."""
        logs.configure("json" if self.log_format == "json" else "human", self.log_level)

    def sources(self) -> tuple[AnySource, ...]:
        """Import what to work for, and the modules with tasks."""
        sources = sources_in(self.targets, self.url)
        for module in self.imports:
            import_named(module)
        return sources


def run(work: Work, *, parent: Supervised | None = None, health: str | None = None, until_eof: bool = False) -> Summary:
    """Run a worker in this process until it is told to end; return what it did."""
    if parent is not None:
        # Before the app is imported, which may take for ever.
        parent.end_with_supervisor(checks.seconds("grace", work.options["grace"]) + MARGIN)
    sources = work.sources()
    with ExitStack() as opened:
        for source in (*homes_of(sources), *sources):
            opened.enter_context(source)
        if parent is not None:
            for home in homes_of(sources):
                _refuse_memory(home)
        worker = Worker(sources, work.options, ledger=None if parent is None else parent.ledger)
        logs.name_worker(worker.name)
        if parent is not None:
            parent.watch(worker)
        if until_eof:
            stop_at_end_of(INPUT, worker)
        # A supervisor speaks for all of its children.
        attendance = attended(lambda: _condition_of(worker), health) if parent is None else nullcontext()
        with stopped_by_signals(worker), attendance:
            worker.start()
            worker.join()
        return worker.summary


def supervise(plan: Plan, *, health: str | None, until_eof: bool = False) -> Ending:
    """Run a supervisor in this process until it is told to end, or gives up."""
    supervisor = Supervisor(plan)
    if until_eof:
        stop_at_end_of(INPUT, supervisor)
    with attended(supervisor.condition, health):
        ending = supervisor.run()
    if ending.how in {How.MISUSED, How.GAVE_UP}:
        log.error("the supervisor gives up: %s; what it said stands above", ending.how)
    else:
        log.info("the supervisor has ended, since %s: %s", ending.how, ending.summary)
    return ending


@contextmanager
def attended(condition: Callable[[], Condition], health: str | None) -> Iterator[None]:
    """Tell systemd, if it asks, and whoever asks at the address, how the service is."""
    with Notifier(condition):
        if health is None:
            yield
            return
        with health_server(health, condition) as server:
            log.info("health is told at %s", server.url)
            yield


def command_of(work: Work) -> list[str]:
    """Return the command that does this work in a process of its own."""
    options = work.options
    named = [
        *_each("--import", work.imports),
        *_each("--queue", options.get("queues") or ()),
        *_each("--type", options.get("types") or ()),
        *_each("--url", [work.url] if work.url is not None else []),
        *_each("--name", [name] if (name := options.get("name")) is not None else []),
        *(f"--{name}={options[name]}" for name in ("concurrency", "lease", "grace")),
        *(["--drain"] if work.is_drain else []),
        f"--log-format={work.log_format}",
        f"--log-level={work.log_level}",
    ]
    # -P: else a module of the app could take the place of one that Python or we import.
    return [sys.executable, "-P", "-m", "tenure.cli", "work", *work.targets, *named]


def reap_command_of(work: Work) -> list[str]:
    """Return the command that takes back the jobs of a dead worker."""
    return [sys.executable, "-P", "-m", "tenure.cli.reaper", work.url or "", *work.targets]


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [f"{option}={value}" for value in values]


def _condition_of(worker: Worker) -> Condition:
    vitals = worker.vitals()
    return Condition(workers=(vitals,), wanted=1, is_stopping=vitals.is_stopping)


def _refuse_memory(jobs: "Jobs") -> None:
    if not is_shared(jobs._store):
        raise ConfigurationError(
            f"{jobs!r} is of one process, and cannot be shared by several; name a store such as sqlite:///tenure.db, "
            "or leave out --processes"
        )
