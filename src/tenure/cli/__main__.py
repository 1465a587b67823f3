"""`python -m tenure.cli`: the `tenure` program where its script is not on PATH."""

from tenure.cli.program import main

main()
