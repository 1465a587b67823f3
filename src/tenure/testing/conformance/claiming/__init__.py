"""Holding jobs: for every store, and for a table of jobs."""
