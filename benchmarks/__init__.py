"""How fast it is, beside others; run by `./dev bench`, described in docs/benchmarks.md."""
