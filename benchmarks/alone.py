"""Run a measurement in a new process, so that earlier measurements do not affect memory or speed."""

import logging
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def alone(function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Call a function in a new process, and return the result."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=be_quiet) as pool:
        return pool.submit(function, *args, **options).result()


def be_quiet() -> None:
    """Disable logging: jobs that fail on purpose would fill the terminal."""
    logging.basicConfig(handlers=[logging.NullHandler()])
