"""Parsing of store URLs; errors never contain the password."""

import re
from urllib.parse import quote

import pytest

from tenure.backends.postgres.address import address_of
from tenure.backends.urls import mask_password
from tenure.errors import ConfigurationError
from tests.postgres.stores import Place


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:secret%zz@db/app",
        "postgresql://ada:secret word@db/app",
        'postgresql://ada:"secret"%@db/app',
        "postgresql://db/app?user=ada&password=secret%zz",
        "postgresql://ada:secret@[::1/app",
        "postgresql://ada:in@secret@db/app",
        "postgresql://ada:in/secret@db/app",
    ],
)
def test_a_url_that_cannot_be_read_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="invalid URL") as told:
        address_of(url, mask_password(url))

    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("notify", "reason"),
    [
        ("postgresql://ada:secret%zz@db/app", "invalid percent-encoded token"),
        ("postgresql://ada:in@secret@db/app", "write '@' as '%40'"),
        ("postgresql://ada:secret@db/app?scheme=x", "invalid URI query parameter"),
        (
            "postgresql://ada:secret@db/app?schema=x&timeout=3",
            "must not contain schema, timeout: put these options in the store's own URL",
        ),
        ("postgresql://db/app?notify=postgresql%3A%2F%2Fada%3Asecret%40db", "must not contain notify"),
        (
            "postgresql%3A%2F%2Fada%3Asecret%40db%2Fapp",
            "notify must be the URL of a PostgreSQL server, percent-encoded",
        ),
        ("mysql://ada:secret@db/app", "notify must be the URL of a PostgreSQL server, percent-encoded"),
        ("", "notify must be the URL of a PostgreSQL server, percent-encoded"),
    ],
)
def test_a_url_to_listen_at_that_cannot_be_used_is_told_without_its_password(notify: str, reason: str) -> None:
    url = f"postgresql://db/app?notify={quote(notify, safe='')}"

    with pytest.raises(ConfigurationError, match=re.escape(reason)) as told:
        address_of(url, mask_password(url))

    assert "secret" not in str(told.value)


def test_an_address_is_shown_without_its_passwords() -> None:
    url = "postgresql://ada:secret@db/app?notify=postgresql%3A%2F%2Fada%3Asecret%40other%2Fapp"

    address = address_of(url, mask_password(url))

    assert "other" in repr(address)
    assert "secret" not in repr(address)


def test_a_url_to_listen_at_is_taken_as_it_was_before_it_was_encoded() -> None:
    notify = "postgresql://ada:%40+%2F@db:5433/app?sslmode=require&application_name=a%20b"
    url = f"postgresql://pooler/app?timeout=3&notify={quote(notify, safe='')}&schema=x"

    address = address_of(url, mask_password(url))

    assert address.url == "postgresql://pooler/app"
    assert address.notify is not None
    assert (address.notify.url, address.notify.timeout) == (notify, 3.0)


def test_what_the_environment_says_counts_unless_the_url_says_otherwise(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=77MB")
    monkeypatch.setenv("PGAPPNAME", "of the environment")

    with address_of(place.url, place.url).connect() as connection:
        found = connection.execute("select current_setting('work_mem'), current_setting('application_name')").fetchone()

    assert found == ("77MB", "of the environment")
