"""`tenure demo`."""

from pathlib import Path

import click

from tenure.cli.output import Output, with_output


@click.command(short_help="See it work: processes race, one is killed.")
@click.option("--keep", metavar="FOLDER", type=click.Path(path_type=Path), help="Leave the store and the log there.")
@with_output
def demo(output: Output, keep: Path | None) -> int:
    """See it work: the workers of a supervisor race; one is killed and replaced, one is frozen and comes back too late.

    The last lines say what the store knows of it: nothing lost, nothing done twice.

    \b
    Examples:
      tenure demo
      tenure demo --keep /tmp/demo
      tenure demo --json
    """
    from tenure.cli.demo.__main__ import main

    return main([*([] if keep is None else ["--keep", str(keep)]), *(["--json"] if output.is_json else [])])


COMMANDS = {"demo": demo}
