"""Which store a command uses, and why."""

import logging
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click

from tenure.cli.param_types import target as target_type
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from tenure.backends.urls import Store
    from tenure.client.jobs import Jobs
    from tenure.client.table import Table

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store, as the command line, the app or the environment names it."""

    url: str | None
    app: str | None

    def jobs(self, *, may_create: bool = False) -> "Jobs":
        """Return the Jobs of the store; unless it may be made, it has to be there."""
        from tenure.backends.urls import is_lasting, is_there, masked

        _leave_losses_to_the_worker()
        jobs = self.named_jobs()
        url = self.url_of(jobs)
        if url is not None and not is_lasting(url):
            raise ConfigurationError(
                f"the store {masked(url)!r} is gone when this command ends; name a file, such as sqlite:///tenure.db"
            )
        if url is not None and not may_create and not is_there(url):
            raise ConfigurationError(
                f"there is no store at {masked(url)!r} ({self.why}); "
                "name another with --url, or make it with `tenure migrate`"
            )
        return jobs

    def source(self) -> "Jobs | Table[Any]":
        """Return the Jobs of the store, which has to be there, or the table that is named."""
        from tenure.client.jobs import Jobs

        found = None if self.app is None else found_in(self.app)
        if found is None or isinstance(found, Jobs):
            return self.jobs()
        if self.url is not None:
            raise ConfigurationError(f"{self.app} is a table, and is where its own store says; leave out --url")
        _leave_losses_to_the_worker()
        return found

    def named_jobs(self) -> "Jobs":
        """Return the Jobs as it is named, whatever is there."""
        from tenure.client.jobs import Jobs

        if self.app is None:
            return Jobs(self.url)
        if self.url is None:
            return jobs_in(self.app)
        return placed_in(jobs_in(self.app), self.url)

    def url_of(self, jobs: "Jobs") -> str | None:
        """Return the URL of its store, if it has one; refuse one that names none, and say who named it."""
        from tenure.backends.urls import scheme_of, url_of

        try:
            url = url_of(jobs._store)
            if url is not None:
                scheme_of(url)
        except ConfigurationError as exc:
            exc.add_note(self.why)
            raise
        except Exception as exc:
            from tenure.core.error_summary import headline_of

            raise ConfigurationError(f"{self.why} cannot be told: {headline_of(exc)}") from exc
        return url

    def url_anywhere(self, jobs: "Jobs") -> str | None:
        """Return the URL of its store as it can be used from any folder."""
        url = self.url_of(jobs)
        if url is None or not url.startswith("sqlite:///") or url.startswith("sqlite:////"):
            return url
        return f"sqlite:///{quote(str(Path.cwd()))}/{url.removeprefix('sqlite:///')}"

    @property
    def why(self) -> str:
        """What named it."""
        if self.url is not None:
            return "named by --url"
        if self.app is not None:
            return f"the store of {self.app}"
        return "named by $TENURE_URL" if os.environ.get("TENURE_URL") else "the default: no other was named"


def _leave_losses_to_the_worker() -> None:
    """Let what a store may lose be told by a worker, which logs, and by the doctor, and not by each command."""
    for name in ("tenure.backends.redis.durability", "tenure.backends.sqlite.connect"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def placed_in(jobs: "Jobs", url: "Store") -> "Jobs":
    """Return the same Jobs with another store."""
    if jobs._opened is not None:
        raise ConfigurationError(f"{jobs!r} is in use when it is imported, so --url comes too late")
    jobs._store = url
    return jobs


def jobs_in(target: str) -> "Jobs":
    """Import the Jobs that `module:object` names."""
    from tenure.client.jobs import Jobs

    found = found_in(target)
    if not isinstance(found, Jobs):
        raise ConfigurationError(
            f"{target!r} is a table, which jobs are not kept in; name a Jobs for this, such as app:jobs"
        )
    return found


def found_in(target: str) -> "Jobs | Table[Any]":
    """Import the Jobs or the table that `module:object` names."""
    from tenure.client.jobs import Jobs

    found = object_of(target)
    named = getattr(found, "sync", found)
    if isinstance(named, Jobs):
        return named
    from tenure.client.table import Table

    if isinstance(named, Table):
        return named
    raise ConfigurationError(f"{target!r} is {_kind_of(found)}, and no Jobs; name yours, such as app:jobs")


def object_of(target: str) -> object:
    """Import the object that `module:object` names."""
    module, _, path = target.partition(":")
    found: object = import_named(module)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            from tenure.core.checks import nearest

            raise ConfigurationError(f"{module!r} has no {path!r}{nearest(name, dir(found))}") from None
    return found


def import_named(module: str) -> object:
    """Import a module from the present folder or the path, and tell apart what is missing."""
    if "" not in sys.path and (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        # What a module prints while it is imported is no result.
        with redirect_stdout(sys.stderr):
            return import_module(module)
    except SystemExit as exc:
        raise ConfigurationError(f"{module!r} cannot be imported: it ends the program, with {exc.code!r}") from exc
    except ModuleNotFoundError as exc:
        if exc.name is not None and (module == exc.name or module.startswith(f"{exc.name}.")):
            raise ConfigurationError(
                f"there is no module {exc.name!r} in {str(Path.cwd())!r} or on the path of Python; "
                "run this where it is, or install it"
            ) from None
        raise failed_import(module, exc) from exc
    except Exception as exc:
        raise failed_import(module, exc) from exc


def failed_import(module: str, error: Exception) -> ConfigurationError:
    """Return what to say of a module whose own code failed, with the place of the failure."""
    import traceback

    from tenure.core.error_summary import headline_of

    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        # Of a library that the module calls, the place of the call says more.
        own = [each for each in frames if Path(each.filename).is_relative_to(Path.cwd())] or frames
        place = f"{own[-1].filename}:{own[-1].lineno}"
    return ConfigurationError(f"{module!r} cannot be imported: {headline_of(error)} ({place})")


def with_place(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that name a store; it gets them as `place`."""

    @click.option("--url", metavar="URL", help="The store, such as sqlite:///tenure.db.")
    @click.option("--app", metavar="MODULE:OBJECT", type=target_type, help="Your Jobs, or your table: app:jobs.")
    @wraps(command)
    def call(*arguments: Any, url: str | None, app: str | None, **options: Any) -> R:
        return command(*arguments, place=Place(url=url, app=app), **options)

    return call


def _kind_of(value: object) -> str:
    return f"a {type(value).__name__}"
