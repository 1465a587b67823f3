"""Other databases of a server."""

from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict


def of_database(server: str, name: str) -> str:
    """Return the URL of the database of this name."""
    parts = {each: value for each, value in conninfo_to_dict(server).items() if each != "dbname"}
    return f"postgresql:///{name}?{urlencode(parts)}"
