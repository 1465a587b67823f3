"""Take back what a dead worker held: started by a supervisor, with its message on the standard input.

`python -m tenure.cli.reaper URL MODULE:OBJECT...`, without one the URL is empty: in a process of its own, since the
supervisor imports nothing of the user's and has no store.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NoReturn

from tenure.cli.exit_codes import Exit, ended_by
from tenure.cli.work_targets import sources_in
from tenure.client.keeper import ticks
from tenure.errors import StoreUnavailable
from tenure.supervisor import reap_dead, sign_off_dead
from tenure.worker.sources import AnySource, homes_of

PATIENCE = 20.0
"""Seconds for a store that does not answer: less than the supervisor has."""
PAUSE = 0.5


def main(url: str, *targets: str) -> int:
    try:
        with ended_by(), ExitStack() as opened:
            # Even with a URL the app is imported: it may change the folder from which a path in it counts.
            sources = sources_in(targets, url or None)
            for source in sources:
                opened.enter_context(source)
            _reap(sources, sys.stdin.buffer.read())
    except Exit as exc:
        return exc.code
    return 0


def _reap(sources: Sequence[AnySource], message: bytes) -> None:
    """Take back what the message says; what is taken back stays so if it has to be tried again."""
    ends_at = ticks() + PATIENCE
    while True:
        try:
            for number, source in enumerate(sources):
                reap_dead(source._backend, message, source=number)
            for home in homes_of(sources):
                sign_off_dead(home._backend, message)
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
