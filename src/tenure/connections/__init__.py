"""Connections of the caller's, in whose transactions statements of ours take part."""
