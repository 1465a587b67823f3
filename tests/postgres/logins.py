"""Login roles that own nothing and are members of a role of `tenure sql roles`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from tenure.backends.postgres import roles
from tenure.backends.postgres.printable_sql import sql_at
from tests.postgres.stores import Place

LoggedIn = Callable[[str], Place]
"""Return the store as opened by a member of this role."""


@contextmanager
def made_roles(place: Place) -> Iterator[LoggedIn]:
    """Create the roles of an existing store; drop them, with all members, on exit."""
    place.execute(sql_at(place.url, place.url)["roles"])
    made = [f"{place.schema}_{role}" for role in roles.ROLES]

    def log_in(role: str) -> Place:
        made.append(f"somebody_{uuid4().hex}")
        place.execute(f"create role {made[-1]} login in role {place.schema}_{role}")
        return Place(place.server.replace("postgres@", f"{made[-1]}@"), place.schema)

    try:
        yield log_in
    finally:
        for name in reversed(made):
            place.execute(f"drop owned by {name} cascade")
            place.execute(f"drop role {name}")
