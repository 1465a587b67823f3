"""`tenure sql`."""

from collections.abc import Mapping

import click

from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import target as target_type
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.cli.targets import table_of, with_target
from tenure.core.checks import did_you_mean


@click.command(short_help="Print the SQL of a store or a Table.")
@click.argument("operation", required=False)
@click.argument("target", required=False, metavar="[MODULE:OBJECT]", type=target_type)
@with_store_options
@with_output
def sql(store_target: StoreTarget, output: CommandOutput, operation: str | None, target: str | None) -> None:
    """Print the SQL that the store runs for OPERATION, or its schema. Without OPERATION, list the operations.

    If MODULE:OBJECT is a Table: print the statements for the Table, with the names of its columns. Then `schema` prints
    the statements that `tenure migrate MODULE:OBJECT` would run, and `functions` prints the functions for other
    languages (PostgreSQL).

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
    texts = _load_sql(with_target(store_target, target))
    if operation is None:
        for name, text in texts.items():
            purpose = next((line.removeprefix("--").strip() for line in text.splitlines() if line.strip()), "")
            if output.is_json:
                output.print_record({"operation": name, "purpose": purpose})
            output.print_text(f"{name:<12} {purpose}")
        return
    if operation not in texts:
        raise click.UsageError(
            f"unknown operation {operation!r}{did_you_mean(operation, texts)} (operations: {', '.join(texts)})"
            + (FUNCTIONS_HINT if operation == "functions" else "")
        )
    if output.is_json:
        output.print_record({"operation": operation, "sql": texts[operation]})
    output.print_text(texts[operation].rstrip())


FUNCTIONS_HINT = (
    "; functions need PostgreSQL: from another language, run the SQL of `tenure sql claim` and `tenure sql settle`"
)


def _load_sql(store_target: StoreTarget) -> Mapping[str, str]:
    from tenure.backends.urls import printable_sql_of

    table = table_of(store_target)
    if table is None:
        return printable_sql_of(store_target.url_of(store_target.unchecked_jobs()))
    with table:
        return table.sql()


COMMANDS = {"sql": sql}
