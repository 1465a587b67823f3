"""A process that forks inside a transaction, which the child leaves first: `python -m … URL` prints the effects."""

import os
import sys

import tenure


def main(url: str) -> None:
    with tenure.Jobs(url) as jobs:
        jobs.enqueue("work", id="job")
        (claim,) = jobs.claim()
        with claim.transaction() as connection:
            connection.execute("create temporary table mine as select 7 as number")
            if (child := os.fork()) == 0:
                sys.exit(3)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            written = connection.execute("select number from mine").fetchone()
        job = jobs.get("job")
        sys.stdout.write(f"{code} {written} {job and job.state}\n")


if __name__ == "__main__":
    main(sys.argv[1])
