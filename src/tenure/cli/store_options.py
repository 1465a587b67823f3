"""The options that name a store, and the import of `module:object`."""

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
class StoreTarget:
    """The store of a command: set by --url, by --app or by the environment."""

    url: str | None
    app: str | None

    def jobs(self, *, may_create: bool = False) -> "Jobs":
        """Return the Jobs of the store. Raise if the store does not exist, unless `may_create`."""
        from tenure.backends.urls import is_persistent, mask_password, store_exists

        _silence_durability_warnings()
        jobs = self.unchecked_jobs()
        url = self.url_of(jobs)
        if url is not None and not is_persistent(url):
            raise ConfigurationError(
                f"store {mask_password(url)!r} does not outlive this command; use a file, for example sqlite:///tenure.db"
            )
        if url is not None and not may_create and not store_exists(url):
            raise ConfigurationError(
                f"no store at {mask_password(url)!r} ({self.origin}); "
                "pass another URL with --url, or create the store with `tenure migrate`"
            )
        return jobs

    def source(self) -> "Jobs | Table[Any]":
        """Return the Table that --app names, or the Jobs of the store. Raise if the store does not exist."""
        from tenure.client.jobs import Jobs

        found = None if self.app is None else import_source(self.app)
        if found is None or isinstance(found, Jobs):
            return self.jobs()
        if self.url is not None:
            raise ConfigurationError(f"--url cannot be used with {self.app}: a Table has its own URL")
        _silence_durability_warnings()
        return found

    def unchecked_jobs(self) -> "Jobs":
        """Return the Jobs without checking whether the store exists."""
        from tenure.client.jobs import Jobs

        if self.app is None:
            return Jobs(self.url)
        if self.url is None:
            return import_jobs(self.app)
        return with_store(import_jobs(self.app), self.url)

    def url_of(self, jobs: "Jobs") -> str | None:
        """Return the URL of the store, or None for a store given as an object. An error names the origin of the URL."""
        from tenure.backends.urls import scheme_of, url_of

        try:
            url = url_of(jobs._store)
            if url is not None:
                scheme_of(url)
        except ConfigurationError as exc:
            exc.add_note(self.origin)
            raise
        except Exception as exc:
            from tenure.core.error_summary import summarize_exception

            raise ConfigurationError(f"cannot determine the store ({self.origin}): {summarize_exception(exc)}") from exc
        return url

    def absolute_url(self, jobs: "Jobs") -> str | None:
        """Return the URL of the store with an absolute path, valid in any folder."""
        url = self.url_of(jobs)
        if url is None or not url.startswith("sqlite:///") or url.startswith("sqlite:////"):
            return url
        return f"sqlite:///{quote(str(Path.cwd()))}/{url.removeprefix('sqlite:///')}"

    @property
    def origin(self) -> str:
        """The origin of the URL: an option, the app, the environment or the default."""
        if self.url is not None:
            return "from --url"
        if self.app is not None:
            return f"from {self.app}"
        return "from $TENURE_URL" if os.environ.get("TENURE_URL") else "the default"


def _silence_durability_warnings() -> None:
    """Suppress the warning that a store may lose data. The worker and the doctor report it; other commands do not."""
    for name in ("tenure.backends.redis.durability", "tenure.backends.sqlite.connect"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def with_store(jobs: "Jobs", url: "Store") -> "Jobs":
    """Point the Jobs to another store; return the Jobs."""
    if jobs._opened is not None:
        raise ConfigurationError(f"--url cannot be used with {jobs!r}: its module opens the store during import")
    jobs._store = url
    return jobs


def import_jobs(target: str) -> "Jobs":
    """Import the Jobs named by `module:object`."""
    from tenure.client.jobs import Jobs

    found = import_source(target)
    if not isinstance(found, Jobs):
        raise ConfigurationError(
            f"{target} is a Table, which this command does not support; pass a Jobs, for example app:jobs"
        )
    return found


def import_source(target: str) -> "Jobs | Table[Any]":
    """Import the Jobs or the Table named by `module:object`."""
    from tenure.client.jobs import Jobs

    found = import_object(target)
    named = getattr(found, "sync", found)
    if isinstance(named, Jobs):
        return named
    from tenure.client.table import Table

    if isinstance(named, Table):
        return named
    raise ConfigurationError(f"{target} has type {type(found).__name__}; pass a Jobs or a Table, for example app:jobs")


def import_object(target: str) -> object:
    """Import the object named by `module:object`."""
    module, _, path = target.partition(":")
    found: object = import_user_module(module)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            from tenure.core.checks import did_you_mean

            remedy = did_you_mean(name, dir(found)) or "; check the name after the colon"
            raise ConfigurationError(f"module {module!r} has no {path!r}{remedy}") from None
    return found


def import_user_module(module: str) -> object:
    """Import a module from the current folder or `sys.path`. Distinguish a missing module from one that fails."""
    if "" not in sys.path and (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        # Output printed during the import is not a result.
        with redirect_stdout(sys.stderr):
            return import_module(module)
    except SystemExit as exc:
        raise ConfigurationError(f"cannot import {module!r}: the module exits the program with {exc.code!r}") from exc
    except ModuleNotFoundError as exc:
        if exc.name is not None and (module == exc.name or module.startswith(f"{exc.name}.")):
            raise ConfigurationError(
                f"no module {exc.name!r} in {str(Path.cwd())!r} or on Python's path; "
                "run the command in the folder of the module, or install the module"
            ) from None
        raise import_failure(module, exc) from exc
    except Exception as exc:
        raise import_failure(module, exc) from exc


def import_failure(module: str, error: Exception) -> ConfigurationError:
    """Return the error for a module whose code failed, with file and line."""
    import traceback

    from tenure.core.error_summary import summarize_exception

    if isinstance(error, SyntaxError):
        location = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        # If a library raised, the line of the user that calls the library is more useful.
        own = [each for each in frames if Path(each.filename).is_relative_to(Path.cwd())] or frames
        location = f"{own[-1].filename}:{own[-1].lineno}"
    return ConfigurationError(f"cannot import {module!r}: {summarize_exception(error)} ({location})")


def with_store_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add --url and --app to a command, which receives them as `store_target`."""

    @click.option("--url", metavar="URL", help="URL of the store, e.g. sqlite:///tenure.db.")
    @click.option("--app", metavar="MODULE:OBJECT", type=target_type, help="Your Jobs or Table, e.g. app:jobs.")
    @wraps(command)
    def call(*arguments: Any, url: str | None, app: str | None, **options: Any) -> R:
        return command(*arguments, store_target=StoreTarget(url=url, app=app), **options)

    return call
