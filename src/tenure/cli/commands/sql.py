"""`tenure sql`."""

import click

from tenure.cli.output import Output, with_output
from tenure.cli.places import Place, with_place
from tenure.core.checks import nearest


@click.command(short_help="Print the statements that the store runs.")
@click.argument("operation", required=False)
@with_place
@with_output
def sql(place: Place, output: Output, operation: str | None) -> None:
    """Print the statements that the store runs for an operation, or its schema; without one, list the operations.

    \b
    Examples:
      tenure sql
      tenure sql claim
      tenure sql schema --url sqlite:///other.db
    """
    from tenure.backends.urls import texts_of

    url = place.url_of(place.named_jobs())
    texts = texts_of(url)
    if operation is None:
        for name, text in texts.items():
            purpose = next((line.removeprefix("--").strip() for line in text.splitlines() if line.strip()), "")
            if output.is_json:
                output.record({"operation": name, "purpose": purpose})
            output.say(f"{name:<10} {purpose}")
        return
    if operation not in texts:
        raise click.UsageError(
            f"there is no operation {operation!r}{nearest(operation, texts)}; there are {', '.join(texts)}"
        )
    if output.is_json:
        output.record({"operation": operation, "sql": texts[operation]})
    output.say(texts[operation].rstrip())


COMMANDS = {"sql": sql}
