"""`tenure migrate`."""

import click

from tenure.cli.output import Output, with_output
from tenure.cli.places import Place, with_place
from tenure.cli.records import record_of


@click.command(short_help="Bring the store's schema up to date.")
@click.option("--sql", is_flag=True, help="Only print what would be done, for somebody else to run (PostgreSQL).")
@with_place
@with_output
def migrate(place: Place, output: Output, *, sql: bool) -> None:
    """Bring the store's schema up to date, and make the store if there is none. To do it again does nothing.

    Whoever opens a store first does the same, unless the URL of a PostgreSQL store says ?migrate=never. On Redis
    there is nothing to be done.

    \b
    Examples:
      tenure migrate
      tenure migrate --url sqlite:////srv/app/tenure.db
      tenure migrate --url postgresql://app@db/app --sql | psql -U owner app
    """
    from tenure.backends.urls import masked, migration_of, name_of

    if sql:
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
