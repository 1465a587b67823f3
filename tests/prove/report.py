"""The report of a proof: printed line by line, and written as JSON to `results/`."""

import argparse
import json
import platform
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import redis

from tests.processes.grounds import SQLITE
from tests.servers import cluster
from tests.servers import redis as redis_servers
from tests.servers.servers import REDIS_CLUSTER

RESULTS = Path(__file__).parent / "results"

Part = tuple[dict[str, bool], Mapping[str, Any]]
"""The checked statements, and the measured values."""


def store_from_arguments() -> str:
    """Return the store from the command line."""
    parser = argparse.ArgumentParser()
    stores = [SQLITE, *cluster.names(), *redis_servers.names(), REDIS_CLUSTER]
    parser.add_argument("--store", choices=stores, default=SQLITE)
    return str(parser.parse_args().store)


class Report:
    """The report of a named proof on a store; `told` contains the parameters of the run."""

    def __init__(self, name: str, told: Mapping[str, Any], store: str = SQLITE) -> None:
        self._path = RESULTS / (f"{name}.json" if store == SQLITE else f"{name}-{store}.json")
        self._started = time.monotonic()
        self._told = dict(told)
        self._holds: dict[str, bool] = {}
        self._found: dict[str, Any] = {}

    def add(self, part: str, holds: Mapping[str, bool], found: Mapping[str, Any]) -> None:
        """Print the statements; store the statements and values."""
        for what, it_holds in holds.items():
            print(f"{'ok  ' if it_holds else 'FAIL'} {what}", flush=True)
        self._holds |= holds
        self._found[part] = found

    def end(self, summary: str) -> int:
        """Write the report; return the exit code."""
        seconds = round(time.monotonic() - self._started)
        written = {
            **self._told,
            "seconds": seconds,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "psycopg": psycopg.__version__,
            "redis-py": redis.__version__,
            "holds": self._holds,
            "found": self._found,
        }
        RESULTS.mkdir(exist_ok=True)
        self._path.write_text(json.dumps(written, indent=2) + "\n")
        print(f"{summary}, {seconds} s; see {self._path.relative_to(Path.cwd())}")
        return 0 if all(self._holds.values()) else 1
