"""Take back what a dead worker held: started by a supervisor, with its message on the standard input.

`python -m tenure.cli.reaper MODULE:OBJECT [URL]`: in a process of its own, since the supervisor imports nothing of the
user's and has no store.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from tenure.cli.endings import Exit, ended_by
from tenure.cli.places import Place
from tenure.errors import StoreUnavailable
from tenure.keeper import ticks
from tenure.supervisor import reap_dead

if TYPE_CHECKING:
    from tenure.jobs import Jobs

PATIENCE = 20.0
"""Seconds for a store that does not answer: less than the supervisor has."""
PAUSE = 0.5


def main(app: str, url: str | None = None) -> int:
    # Even with a URL the app is imported: it may change the folder from which a path in it counts.
    place = Place(url=url, app=app)
    try:
        with ended_by(), place.named_jobs() as jobs:
            _reap(jobs, sys.stdin.buffer.read())
    except Exit as exc:
        return exc.code
    return 0


def _reap(jobs: "Jobs", message: bytes) -> None:
    """Take back what the message says; what is taken back stays so if it has to be tried again."""
    ends_at = ticks() + PATIENCE
    while True:
        try:
            reap_dead(jobs._backend, message)
        except StoreUnavailable:
            if ticks() >= ends_at:
                raise
            time.sleep(PAUSE)
        else:
            return


def end(code: int) -> NoReturn:
    """End at once: the app may have started threads that do not."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(*sys.argv[1:]))
