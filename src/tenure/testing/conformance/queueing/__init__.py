"""Tests of enqueueing, order and retention: for every store."""
