"""`tenure demo`."""

from pathlib import Path

import click


@click.command(short_help="See it work: processes race, one is killed.")
@click.option("--keep", metavar="FOLDER", type=click.Path(path_type=Path), help="Leave the store and the log there.")
def demo(keep: Path | None) -> int:
    """See it work: the workers of a supervisor race; one is killed and replaced, one is frozen and comes back too late.

    The last lines say what the store knows of it: nothing lost, nothing done twice.

    \b
    Examples:
      tenure demo
      tenure demo --keep /tmp/demo
    """
    from tenure.demo.__main__ import main

    return main([] if keep is None else ["--keep", str(keep)])


COMMANDS = {"demo": demo}
