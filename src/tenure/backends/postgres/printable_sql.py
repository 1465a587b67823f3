"""Return the SQL of the store for reading: the commented statements of every operation, and the schema.

Of a statement with several forms, this is the form for all queues and types.
"""

from collections.abc import Mapping
from importlib.resources import files

from tenure.backends.postgres import functions, migrations, roles
from tenure.backends.postgres.address import address_of
from tenure.backends.postgres.statements import fragments_in, operation_names


def sql_at(url: str, shown: str) -> Mapping[str, str]:
    """Return the SQL of every operation, and of schema, functions and roles, by name."""
    schema = address_of(url, shown).schema
    folder, fragments = files(__package__), fragments_in(schema)
    found = {
        operation: folder.joinpath(f"{operation}.sql").read_text("utf-8").format(**fragments)
        for operation in operation_names()
        if operation != "schema"
    }
    made = {"schema": migrations.script(schema), "functions": functions.script(schema), "roles": roles.script(schema)}
    return {**found, **made}
