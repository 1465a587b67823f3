"""The demo: `tenure demo`, or `./dev demo`.

The worker processes of a supervisor race for the jobs of one SQLite file. One is killed and one is frozen while they
hold jobs. The report at the end is counted in the store, and the exit code says whether every line holds.
"""
