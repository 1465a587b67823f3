"""The layout version, and the error for a store with another version."""

from contextlib import closing

import pytest

from tenure.backends.redis import Redis
from tenure.core.operations import Query
from tenure.errors import SchemaOutdated, StoreUnavailable
from tenure.testing.conformance.building import build_record
from tests.redis.stores import Place
from tests.servers.addresses import LOOPBACK, free_port


def test_a_store_with_another_layout_is_told_and_left_as_it_is(place: Place, store: Redis) -> None:
    store.enqueue([build_record(id="job")])
    place.execute("HSET", place.key("store"), "layout", 2)
    before = place.execute("HGETALL", place.key("rows"))

    for use in (store.migrate, store.stats, lambda: store.enqueue([build_record()]), lambda: store.delete(["job"])):
        with pytest.raises(SchemaOutdated, match="was created by a newer tenure"):
            use()

    assert place.execute("HGETALL", place.key("rows")) == before


def test_the_layout_is_told_of_a_store_that_has_nothing_yet(place: Place, store: Redis) -> None:
    schema = store.migrate()

    assert (schema.before, schema.now) == (1, 1)
    assert (store.find(Query()).jobs, place.keys()) == ([], [])


def test_the_layout_of_a_store_that_is_not_there_is_not_told() -> None:
    with (
        closing(Redis(f"redis://{LOOPBACK}:{free_port()}")) as store,
        pytest.raises(StoreUnavailable, match="cannot reach"),
    ):
        store.migrate()
