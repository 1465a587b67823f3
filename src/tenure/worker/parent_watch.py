"""Stop a worker when its parent process dies.

The child holds the read end of a pipe. The pipe reaches its end when the parent exits, for whatever reason.
"""

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tenure.signals import Stoppable

log = logging.getLogger(__name__)


def exit_when_parent_dies(pipe: int, delay: float) -> None:
    """Exit this process `delay` seconds after the pipe ends: without a parent, no process would kill it."""

    def exit_at_end() -> None:
        # Wait for the end only, without reading: `stop_when_parent_dies` reads the messages.
        end = select.poll()
        end.register(pipe, 0)
        end.poll()
        time.sleep(delay)
        os._exit(1)

    threading.Thread(target=exit_at_end, name="tenure-exit-with-parent", daemon=True).start()


def stop_when_parent_dies(pipe: int, worker: Stoppable, on_message: Callable[[], None] = lambda: None) -> None:
    """Stop the worker when the pipe ends, and call `on_message` for each message before. Return at once."""

    def read_until_end() -> None:
        with suppress(OSError):
            while os.read(pipe, 4_096):
                on_message()
        log.warning("parent process exited or closed the pipe; stopping")
        worker.stop()

    threading.Thread(target=read_until_end, name="tenure-parent-watch", daemon=True).start()
