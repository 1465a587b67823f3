"""The tests of our own pooler, run through PgBouncer; and the pool modes that only PgBouncer has."""

from contextlib import closing

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.errors import StoreUnavailable
from tenure.testing.conformance.building import build_completion, build_record, settle, take_one
from tests.postgres.stores import Place
from tests.postgres.test_pooled import (
    clock,
    test_a_client_that_ends_in_a_transaction_leaves_none_open,
    test_a_row_that_another_keeps_locked_is_waited_for_as_long_as_the_url_says,
    test_a_schema_that_another_keeps_locked_is_waited_for_as_long_as_the_url_says,
    test_a_store_that_is_open_can_be_used_on_both_sides_of_a_fork,
    test_a_transaction_of_the_callers_holds_the_effect_and_the_completion,
    test_a_worker_drains_a_queue_with_many_at_once,
    test_an_operation_answers_and_stores_the_same_and_leaves_nothing_behind,
    test_claims_are_kept,
    test_many_more_clients_than_sessions_take_each_job_once,
    test_many_who_make_the_tables_at_once_all_find_a_store,
    test_nobody_listens_through_a_pooler_and_that_is_said_once_with_the_remedy,
    test_options_of_the_users_own_are_told_to_be_refused,
    test_settings_hold_in_every_transaction_and_not_after_it,
    test_what_is_seen_through_a_pooler_is_what_is_there,
    test_who_has_another_url_to_listen_at_is_woken,
)
from tests.servers.postgres import Server
from tests.servers.servers import Servers


def test_session_mode_will_do_as_well(servers: Servers, postgres: Server, place: Place) -> None:
    with (
        servers.pgbouncer(postgres, mode="session") as pooler,
        closing(PostgreSQL(pooler.url_of(place.schema) + "&connections=2")) as store,
    ):
        store.enqueue([build_record(), build_record()])

        assert settle(store, build_completion(take_one(store)))
        assert settle(store, build_completion(take_one(store)))


def test_statement_mode_will_not_and_is_told(servers: Servers, postgres: Server, place: Place) -> None:
    with (
        servers.pgbouncer(postgres, mode="statement") as pooler,
        closing(PostgreSQL(pooler.url_of(place.schema))) as store,
        pytest.raises(StoreUnavailable, match="transaction blocks not allowed in statement pooling mode"),
    ):
        store.stats()
