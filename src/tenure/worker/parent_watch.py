"""Stop a worker when whoever started it is gone.

A lifeline is the end of a pipe that ends with the process at the other end, whatever ended that.
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
    """Have this process ended so many seconds after this file, if it is still there: nobody else would end it."""

    def hold() -> None:
        # Of its end alone, without reading: what may come before that is for another.
        end = select.poll()
        end.register(pipe, 0)
        end.poll()
        time.sleep(delay)
        os._exit(1)

    threading.Thread(target=hold, name="tenure-exit-with-parent", daemon=True).start()


def stop_when_parent_dies(pipe: int, worker: Stoppable, on_message: Callable[[], None] = lambda: None) -> None:
    """Have the worker stopped when this file ends, and `hear` called for what comes before; return at once."""

    def hold() -> None:
        with suppress(OSError):
            while os.read(pipe, 4_096):
                on_message()
        log.warning("parent process exited or closed the pipe; stopping")
        worker.stop()

    threading.Thread(target=hold, name="tenure-parent-watch", daemon=True).start()
