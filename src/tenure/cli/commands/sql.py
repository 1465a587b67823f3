"""`tenure sql`."""

from collections.abc import Mapping

import click

from tenure.cli.output import Output, with_output
from tenure.cli.param_types import target as target_type
from tenure.cli.store_options import Place, with_place
from tenure.cli.targets import placed, table_of
from tenure.core.checks import nearest


@click.command(short_help="Print the statements that a store or a table runs.")
@click.argument("operation", required=False)
@click.argument("target", required=False, metavar="[MODULE:OBJECT]", type=target_type)
@with_place
@with_output
def sql(place: Place, output: Output, operation: str | None, target: str | None) -> None:
    """Print the statements that the store runs for an operation, or its schema; without one, list the operations.

    With MODULE:OBJECT, those of your Table: as they are sent, with its own names. `schema` is then all that
    `tenure migrate MODULE:OBJECT` adds to the table, `functions` what other languages can call (PostgreSQL).

    \b
    Examples:
      tenure sql
      tenure sql claim
      tenure sql schema --url sqlite:///other.db
      tenure sql app:orders
      tenure sql claim app:orders
      tenure sql functions app:orders | psql app
    """
    if target is None and operation is not None and ":" in operation:
        target, operation = target_type(operation), None
    texts = _texts(placed(place, target))
    if operation is None:
        for name, text in texts.items():
            purpose = next((line.removeprefix("--").strip() for line in text.splitlines() if line.strip()), "")
            if output.is_json:
                output.record({"operation": name, "purpose": purpose})
            output.say(f"{name:<12} {purpose}")
        return
    if operation not in texts:
        raise click.UsageError(
            f"there is no operation {operation!r}{nearest(operation, texts)}; there are {', '.join(texts)}"
            + (FUNCTIONS_ARE_POSTGRESQLS if operation == "functions" else "")
        )
    if output.is_json:
        output.record({"operation": operation, "sql": texts[operation]})
    output.say(texts[operation].rstrip())


FUNCTIONS_ARE_POSTGRESQLS = (
    "; functions are for PostgreSQL: from another language, run what `tenure sql claim` and `tenure sql settle` print"
)


def _texts(place: Place) -> Mapping[str, str]:
    from tenure.backends.urls import texts_of

    table = table_of(place)
    if table is None:
        return texts_of(place.url_of(place.named_jobs()))
    with table:
        return table.texts()


COMMANDS = {"sql": sql}
