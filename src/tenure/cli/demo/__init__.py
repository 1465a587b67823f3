"""Show it at work: `tenure demo`, or `./dev demo`.

The worker processes of a supervisor race for the jobs of one SQLite file; one is killed and one is frozen, with jobs
in their hands. What is printed at the end is counted in the store, and the exit code says whether all of it holds.
"""
