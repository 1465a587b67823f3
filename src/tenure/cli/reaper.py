"""Reap the claims of a dead worker. The supervisor starts this process and sends its message on the standard input.

`python -m tenure.cli.reaper URL MODULE:OBJECT...`; the URL may be empty. A separate process, since the supervisor
neither imports user code nor opens a store.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NoReturn

from tenure.cli.exit_codes import Exit, exit_on_errors
from tenure.cli.work_targets import import_sources
from tenure.client.keeper import ticks
from tenure.errors import StoreUnavailable
from tenure.supervisor import deregister_dead, reap_dead
from tenure.worker.sources import AnySource, all_jobs_of

STORE_RETRY_TIMEOUT = 20.0
"""Seconds to retry an unavailable store: less than the supervisor waits for this process."""
RETRY_DELAY = 0.5


def main(url: str, *targets: str) -> int:
    try:
        with exit_on_errors(), ExitStack() as opened:
            # Import the app even if there is a URL: the app may change the folder that a relative path refers to.
            sources = import_sources(targets, url or None)
            for source in sources:
                opened.enter_context(source)
            _reap(sources, sys.stdin.buffer.read())
    except Exit as exc:
        return exc.code
    return 0


def _reap(sources: Sequence[AnySource], message: bytes) -> None:
    """Reap the claims in the message. A retry does not reap a claim twice."""
    ends_at = ticks() + STORE_RETRY_TIMEOUT
    while True:
        try:
            for number, source in enumerate(sources):
                reap_dead(source._backend, message, source_index=number)
            for jobs in all_jobs_of(sources):
                deregister_dead(jobs._backend, message)
        except StoreUnavailable:
            if ticks() >= ends_at:
                raise
            time.sleep(RETRY_DELAY)
        else:
            return


def exit_at_once(code: int) -> NoReturn:
    """Exit at once: the app may have started threads that never end."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    exit_at_once(main(*sys.argv[1:]))
