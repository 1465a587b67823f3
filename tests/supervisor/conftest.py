"""A stage, and the store on it."""

from tests.processes.conftest import jobs, stage

__all__ = ["jobs", "stage"]
