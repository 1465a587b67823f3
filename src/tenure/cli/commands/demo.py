"""`tenure demo`."""

from pathlib import Path

import click

from tenure.cli.output import CommandOutput, with_output


@click.command(short_help="Watch workers race while one is killed.")
@click.option("--keep", metavar="FOLDER", type=click.Path(path_type=Path), help="Keep the store and the log in FOLDER.")
@with_output
def demo(output: CommandOutput, keep: Path | None) -> int:
    """Watch the workers of a supervisor race for jobs.

    One worker is killed and replaced. Another is frozen, and resumes after its leases have expired.

    The report at the end counts the jobs in the store: no job is lost, and no job is completed twice.

    \b
    Examples:
      tenure demo
      tenure demo --keep /tmp/demo
      tenure demo --json
    """
    from tenure.cli.demo.__main__ import main

    return main([*([] if keep is None else ["--keep", str(keep)]), *(["--json"] if output.is_json else [])])


COMMANDS = {"demo": demo}
