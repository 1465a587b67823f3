"""Migrating the schema."""

from tenure.backends.protocol import Backend
from tenure.testing.conformance.building import build_record, ids_of, take


def test_migrating_brings_the_schema_to_a_version_and_again_changes_nothing(store: Backend) -> None:
    first = store.migrate()

    again = store.migrate()

    assert first == again
    assert 0 <= first.before <= first.now
    assert first.now >= 1


def test_migrating_keeps_what_is_stored(store: Backend) -> None:
    store.enqueue([build_record(id="a")])

    store.migrate()

    assert ids_of(take(store)) == ["a"]
