"""`tenure migrate`."""

from typing import TYPE_CHECKING, Any

import click

from tenure.cli.json_output import record_of
from tenure.cli.output import Output, with_output
from tenure.cli.param_types import duration
from tenure.cli.param_types import target as target_type
from tenure.cli.store_options import Place, with_place
from tenure.cli.targets import placed, table_of

if TYPE_CHECKING:
    from tenure.client.table import Table


@click.command(short_help="Bring the schema of a store or a table up to date.")
@click.argument("target", required=False, metavar="[MODULE:OBJECT]", type=target_type)
@click.option("--sql", is_flag=True, help="Only print what would be done, for somebody else to run.")
@click.option(
    "--adopt-running-after",
    type=duration,
    metavar="TIME",
    help="Of a table: give rows that run without a lease one that ends so long after they were started.",
)
@click.option("--functions", is_flag=True, help="Of a table: install the functions for other languages (PostgreSQL).")
@with_place
@with_output
def migrate(
    place: Place, output: Output, *, target: str | None, sql: bool, adopt_running_after: float | None, functions: bool
) -> None:
    """Bring the store's schema up to date, and make the store if there is none. To do it again does nothing.

    Whoever opens a store first does the same, unless the URL of a PostgreSQL store says ?migrate=never. On Redis
    there is nothing to be done.

    With MODULE:OBJECT that names a Table: add to it the columns and indexes that it lacks, or make its companion. This
    nobody does by himself.

    \b
    Examples:
      tenure migrate
      tenure migrate --url sqlite:////srv/app/tenure.db
      tenure migrate --url postgresql://app@db/app --sql | psql -U owner app
      tenure migrate app:orders --adopt-running-after 10m
      tenure migrate app:orders --functions --sql
    """
    place = placed(place, target)
    table = table_of(place)
    if table is not None:
        _migrate_table(table, output, is_only_printed=sql, adopt_running_after=adopt_running_after, functions=functions)
        return
    if adopt_running_after is not None or functions:
        option = "--functions" if functions else "--adopt-running-after"
        raise click.UsageError(f"{option} is for a table; name yours, such as `tenure migrate app:orders {option}`")
    _migrate_store(place, output, is_only_printed=sql)


def _migrate_table(
    table: "Table[Any]",
    output: Output,
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
        output.record({"sql": text} if is_only_printed else {"table": table.name, "statements": statements})
    if text:
        output.say(text)
    if is_only_printed:
        output.say("" if text else "-- there is nothing to do")
    elif text:
        output.note(f"{table.name} is up to date; this was run")
    else:
        output.say(f"{table.name} has all that it needs; there was nothing to do")


def _migrate_store(place: Place, output: Output, *, is_only_printed: bool) -> None:
    from tenure.backends.urls import masked, migration_of, name_of

    if is_only_printed:
        text = migration_of(place.url_of(place.named_jobs()))
        if output.is_json:
            output.record({"sql": text})
        output.say(text.rstrip() or "-- the schema is up to date")
        return
    with place.jobs(may_create=True) as store:
        schema = store.migrate()
        url = place.url_of(store)
    name = name_of(store._store) if url is None else masked(url)
    if output.is_json:
        output.record({"store": name, **record_of(schema)})
    elif schema.before == schema.now:
        output.say(f"{name} has schema {schema.now}; there was nothing to do")
    elif schema.before == 0:
        output.say(f"{name} is made, with schema {schema.now}")
    else:
        output.say(f"{name} was brought from schema {schema.before} to {schema.now}")


COMMANDS = {"migrate": migrate}
