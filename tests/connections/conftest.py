"""A store and a table of the caller in the same database, shared by a module; each test uses its own queues."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

import tenure
from tests.connections.drivers import KINDS, Kind, Opened
from tests.postgres.stores import Place, new_place
from tests.servers.servers import Servers, shared_names


@dataclass(frozen=True, slots=True)
class Home:
    """The database of the jobs and of the caller's data."""

    place: Place
    jobs: tenure.Jobs
    kind: Kind
    queue: str = field(default_factory=lambda: uuid4().hex)

    def opened(self) -> Opened:
        """Open a connection of the caller."""
        return self.kind.open(self.place.server, self.place.schema)

    def claim(self, id: str, lease: float = 60) -> tenure.Claim:
        """Enqueue and claim a job."""
        self.jobs.enqueue("work", id=id, queue=self.queue)
        (claim,) = self.jobs.claim(queues=self.queue, lease=lease)
        return claim

    def state(self, id: str) -> str | None:
        job = self.jobs.get(id)
        return None if job is None else job.state

    def effects(self, id: str) -> int:
        """Return the number of effects of a job."""
        ((number,),) = self.place.execute("select count(*) from S.effects where job = %s", id)
        return int(number)


@pytest.fixture(scope="module", params=shared_names())
def place(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Place]:
    with new_place(servers.shared(request.param).url) as place:
        place.open().migrate()
        place.execute("create table S.effects (job text not null)")
        yield place


@pytest.fixture(scope="module")
def jobs(place: Place) -> Iterator[tenure.Jobs]:
    with tenure.Jobs(place.url) as jobs:
        yield jobs


@pytest.fixture(params=list(KINDS))
def home(request: pytest.FixtureRequest, place: Place, jobs: tenure.Jobs) -> Home:
    return Home(place, jobs, KINDS[request.param])
