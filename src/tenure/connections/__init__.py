"""Run statements of tenure in a transaction of the caller's connection."""
