"""`tenure config`."""

import os
import platform
from pathlib import Path
from typing import Any

import click

from tenure.cli.output import Output, with_output
from tenure.cli.store_options import Place, with_place


@click.command(short_help="Say which store is used, and why.")
@with_place
@with_output
def config(place: Place, output: Output) -> None:
    """Say which store is used, and why. Passwords are not shown, and nothing is opened.

    \b
    Examples:
      tenure config
      tenure config --app app:jobs
      TENURE_URL=sqlite:////srv/app/tenure.db tenure config --json
    """
    from tenure.backends.urls import POSTGRES, REDIS, is_there, masked, name_of, scheme_of

    jobs = place.named_jobs()
    url = place.url_of(jobs)
    is_on_a_server = url is not None and scheme_of(url) in {*POSTGRES, *REDIS}
    facts: dict[str, Any] = {
        "store": name_of(jobs._store) if url is None else masked(url),
        "why": place.why,
        "is_there": None if url is None or is_on_a_server else is_there(url),
        "folder": str(Path.cwd()),
        "TENURE_URL": masked(os.environ["TENURE_URL"]) if "TENURE_URL" in os.environ else None,
        "version": version(),
        "python": platform.python_version(),
    }
    if output.is_json:
        output.record(facts)
        return
    words = {
        True: "it is there",
        False: "it is not there yet: `tenure migrate`, an enqueue or a worker makes it",
        None: "it is on a server, which was not asked" if is_on_a_server else "it is an object of your own",
    }
    output.say(f"store       {facts['store']}")
    output.say(f"why         {facts['why']}")
    output.say(f"            {words[facts['is_there']]}")
    output.say(f"folder      {facts['folder']}")
    output.say(f"TENURE_URL  {facts['TENURE_URL'] or 'not set'}")
    output.say(f"tenure      {facts['version']}, Python {facts['python']}")


def version() -> str:
    import tenure

    return tenure.__version__


COMMANDS = {"config": config}
