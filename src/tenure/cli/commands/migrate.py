"""`tenure migrate`."""

from typing import TYPE_CHECKING, Any

import click

from tenure.cli.json_output import to_record
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import duration
from tenure.cli.param_types import target as target_type
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.cli.targets import table_of, with_target

if TYPE_CHECKING:
    from tenure.client.table import Table


@click.command(short_help="Create or update the schema of a store or a Table.")
@click.argument("target", required=False, metavar="[MODULE:OBJECT]", type=target_type)
@click.option("--sql", is_flag=True, help="Only print the statements, for an administrator to run.")
@click.option(
    "--adopt-running-after",
    type=duration,
    metavar="TIME",
    help="Table: give running rows without a lease a lease that expires this long after their start.",
)
@click.option("--functions", is_flag=True, help="Table: install the functions for other languages (PostgreSQL).")
@with_store_options
@with_output
def migrate(
    store_target: StoreTarget,
    output: CommandOutput,
    *,
    target: str | None,
    sql: bool,
    adopt_running_after: float | None,
    functions: bool,
) -> None:
    """Create the store if it does not exist, and update its schema. A second run changes nothing.

    The first process that opens a store does the same, unless the URL of a PostgreSQL store has ?migrate=never. Redis
    needs no migration.

    If MODULE:OBJECT is a Table: add the missing columns and indexes to the table, or create its sidecar table. A Table
    is never migrated automatically.

    \b
    Examples:
      tenure migrate
      tenure migrate --url sqlite:////srv/app/tenure.db
      tenure migrate --url postgresql://app@db/app --sql | psql -U owner app
      tenure migrate app:orders --adopt-running-after 10m
      tenure migrate app:orders --functions --sql
    """
    store_target = with_target(store_target, target)
    table = table_of(store_target)
    if table is not None:
        _migrate_table(table, output, is_only_printed=sql, adopt_running_after=adopt_running_after, functions=functions)
        return
    if adopt_running_after is not None or functions:
        option = "--functions" if functions else "--adopt-running-after"
        raise click.UsageError(f"{option} needs a Table, for example `tenure migrate app:orders {option}`")
    _migrate_store(store_target, output, is_only_printed=sql)


def _migrate_table(
    table: "Table[Any]",
    output: CommandOutput,
    *,
    is_only_printed: bool,
    adopt_running_after: float | None,
    functions: bool,
) -> None:
    with table:
        change = table.outstanding if is_only_printed else table.migrate
        statements = change(adopt_running_after=adopt_running_after, functions=functions)
    text = "\n\n".join(f"{each.strip().removesuffix(';')};" for each in statements)
    if output.is_json:
        output.print_record({"sql": text} if is_only_printed else {"table": table.name, "statements": statements})
    if text:
        output.print_text(text)
    if is_only_printed:
        output.print_text("" if text else "-- nothing to migrate")
    elif text:
        output.print_note(f"{table.name} migrated with the statements above")
    else:
        output.print_text(f"{table.name} is up to date; nothing to migrate")


def _migrate_store(store_target: StoreTarget, output: CommandOutput, *, is_only_printed: bool) -> None:
    from tenure.backends.urls import display_name, mask_password, migration_sql

    if is_only_printed:
        text = migration_sql(store_target.url_of(store_target.unchecked_jobs()))
        if output.is_json:
            output.print_record({"sql": text})
        output.print_text(text.rstrip() or "-- the schema is up to date")
        return
    with store_target.jobs(may_create=True) as store:
        schema = store.migrate()
        url = store_target.url_of(store)
    name = display_name(store._store) if url is None else mask_password(url)
    if output.is_json:
        output.print_record({"store": name, **to_record(schema)})
    elif schema.before == schema.now:
        output.print_text(f"{name} is up to date; schema version {schema.now}")
    elif schema.before == 0:
        output.print_text(f"{name} created; schema version {schema.now}")
    else:
        output.print_text(f"{name} migrated from schema version {schema.before} to {schema.now}")


COMMANDS = {"migrate": migrate}
