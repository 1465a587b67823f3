"""Show it at work: `python -m tenure.demo`, or `./dev demo`.

Worker processes race for the jobs of one SQLite file; one is killed and one is frozen, with jobs in their hands. What
is printed at the end is counted in the store, and the exit code says whether all of it holds.
"""
