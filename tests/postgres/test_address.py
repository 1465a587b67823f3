"""What a URL says, and what an error about it must not."""

import pytest

from tenure.backends.postgres.address import address_of
from tenure.backends.urls import masked
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
    with pytest.raises(ConfigurationError, match="cannot be used") as told:
        address_of(url, masked(url))

    assert "secret" not in str(told.value)


def test_an_address_is_shown_without_its_password() -> None:
    url = "postgresql://ada:secret@db/app"

    assert "secret" not in repr(address_of(url, masked(url)))


def test_what_the_environment_says_counts_unless_the_url_says_otherwise(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=77MB")
    monkeypatch.setenv("PGAPPNAME", "of the environment")

    with address_of(place.url, place.url).connect() as connection:
        found = connection.execute("select current_setting('work_mem'), current_setting('application_name')").fetchone()

    assert found == ("77MB", "of the environment")
