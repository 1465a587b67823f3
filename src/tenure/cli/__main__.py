"""`python -m tenure.cli`: the program, for a Python whose scripts are not on the path."""

from tenure.cli.program import main

main()
