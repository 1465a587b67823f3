"""Enqueueing, ordering and keeping jobs: for every store."""
