"""A user with the rights in the guide can run every operation; a user without them gets an error."""

import logging
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.protocol import Backend
from tenure.backends.redis import Redis
from tenure.backends.redis.script import script
from tenure.core.operations import Query
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, take_one
from tests.processes.stage import until
from tests.redis.everything import OPERATIONS, SCRIPTS, filled
from tests.redis.stores import Place
from tests.redis.waiting import waiting

GUIDE = Path(__file__).parents[2] / "docs" / "redis.md"

OF_THE_DRIVER = {"eval", "evalsha", "info", "config|get", "ping", "subscribe"}
"""Commands that tenure sends besides scripts."""

Grant = Callable[[str], None]


def listed() -> list[str]:
    """Return the words of the guide's command that creates a user."""
    (command,) = re.findall(r"```\n(redis-cli ACL SETUSER .*?)```", GUIDE.read_text(), re.DOTALL)
    return shlex.split(command.replace("\\\n", " "))[1:]


@pytest.fixture
def grant(place: Place) -> Iterator[Grant]:
    """Creates a user named like the prefix, with the rights of the guide and the given changes."""

    def set_rights(more: str) -> None:
        words = [word.replace("{tenure}", f"{{{place.prefix}}}") for word in listed()]
        words[words.index("app")] = place.prefix
        place.execute(*words, *more.split())

    yield set_rights
    place.execute("ACL", "DELUSER", place.prefix)


def opened_by_user(place: Place, clock: Clock | None = None) -> "closing[Redis]":
    return closing(place.open(f"&username={place.prefix}&password=secret", clock=clock))


def test_the_guide_lists_exactly_the_commands_that_are_used() -> None:
    called = {word.lower() for name in SCRIPTS for word in re.findall(r'call\w*\("([A-Z]+)"', script(name).text)}

    allowed = [word[1:] for word in listed() if word.startswith("+")]

    assert sorted(allowed) == sorted(called | OF_THE_DRIVER)


def test_every_operation_of_a_store_is_tried() -> None:
    operations = {name for name in dir(Backend) if not name.startswith("_")}

    assert set(OPERATIONS) == operations - {"close"}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_everything_is_done_with_the_rights_that_the_guide_lists(place: Place, grant: Grant, operation: str) -> None:
    clock = Clock()
    grant("")
    with closing(place.open(clock=clock)) as owner, opened_by_user(place, clock) as user:
        held = filled(owner, clock)

        OPERATIONS[operation](user, held)

        assert user.find(Query()).jobs == owner.find(Query()).jobs


def test_wake_ups_are_heard_with_the_rights_that_the_guide_lists(place: Place, grant: Grant) -> None:
    grant("")
    with opened_by_user(place) as user:
        user.wait(["none"], None, 0.0)

        until(lambda: user._waiter._listener.is_connected)

        assert len(place.execute("PUBSUB", "CHANNELS", place.key("wake:*"))) == 1


def test_without_the_right_to_subscribe_jobs_are_found_by_looking(
    place: Place, grant: Grant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tenure.backends.redis.listener")
    grant("-subscribe")
    with opened_by_user(place) as user:
        user.wait(["none"], None, 0.0)
        until(lambda: "SUBSCRIBE connection lost; polling once a second until it is back" in caplog.text)

        user.enqueue([build_record(id="job")])
        user.wait(None, None, 60.0)

        assert take_one(user).job.id == "job"


@pytest.mark.parametrize("missing", ["-publish", "resetchannels"])
def test_what_is_done_without_the_right_to_publish_is_done_and_found_by_looking(
    place: Place, grant: Grant, missing: str
) -> None:
    grant(missing)
    with closing(place.open()) as owner, opened_by_user(place) as user, waiting(place, owner, ["mail"]) as thread:
        (enqueued,) = user.enqueue([build_record(id="job", queue="mail")])

    assert enqueued.created
    assert not thread.is_alive()


def test_without_the_rights_to_see_its_settings_a_server_is_used_all_the_same(
    place: Place, grant: Grant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tenure.backends.redis.durability")
    grant("-info -config")
    with opened_by_user(place) as user:
        user.enqueue([build_record(id="job")])

        assert take_one(user).job.id == "job"
    assert "persistence settings of the server not readable" in caplog.text


@pytest.mark.parametrize("missing", ["-hset", "resetkeys ~other:*", "-evalsha"])
def test_a_user_that_lacks_a_right_is_told_where_they_are_listed(place: Place, grant: Grant, missing: str) -> None:
    grant(missing)

    with opened_by_user(place) as user, pytest.raises(ConfigurationError, match=r"rights listed in docs/redis\.md"):
        user.enqueue([build_record()])
