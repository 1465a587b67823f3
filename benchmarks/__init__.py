"""Benchmarks of tenure and of other queues. Run with `./dev bench`; see docs/benchmarks.md."""
