"""`tenure config`."""

import os
import platform
from pathlib import Path
from typing import Any

import click

from tenure.cli.output import CommandOutput, with_output
from tenure.cli.store_options import StoreTarget, with_store_options


@click.command(short_help="Show which store is used, and why.")
@with_store_options
@with_output
def config(store_target: StoreTarget, output: CommandOutput) -> None:
    """Show which store is used, and why. Passwords are masked, and the store is not opened.

    \b
    Examples:
      tenure config
      tenure config --app app:jobs
      TENURE_URL=sqlite:////srv/app/tenure.db tenure config --json
    """
    from tenure.backends.urls import (
        POSTGRES_SCHEMES,
        REDIS_SCHEMES,
        display_name,
        mask_password,
        scheme_of,
        store_exists,
    )

    jobs = store_target.unchecked_jobs()
    url = store_target.url_of(jobs)
    is_on_a_server = url is not None and scheme_of(url) in {*POSTGRES_SCHEMES, *REDIS_SCHEMES}
    facts: dict[str, Any] = {
        "store": display_name(jobs._store) if url is None else mask_password(url),
        "why": store_target.origin,
        "is_there": None if url is None or is_on_a_server else store_exists(url),
        "folder": str(Path.cwd()),
        "TENURE_URL": mask_password(os.environ["TENURE_URL"]) if "TENURE_URL" in os.environ else None,
        "version": version(),
        "python": platform.python_version(),
    }
    if output.is_json:
        output.print_record(facts)
        return
    words = {
        True: "the store exists",
        False: "the store does not exist yet; `tenure migrate`, an enqueue or a worker creates it",
        None: "server not contacted; check it with `tenure doctor`" if is_on_a_server else "an object of your app",
    }
    output.print_text(f"store       {facts['store']}")
    output.print_text(f"why         {facts['why']}")
    output.print_text(f"            {words[facts['is_there']]}")
    output.print_text(f"folder      {facts['folder']}")
    output.print_text(f"TENURE_URL  {facts['TENURE_URL'] or 'not set'}")
    output.print_text(f"tenure      {facts['version']}, Python {facts['python']}")


def version() -> str:
    import tenure

    return tenure.__version__


COMMANDS = {"config": config}
