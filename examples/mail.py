"""A script with a task and a periodic task.

    python examples/mail.py work
    python examples/mail.py send ada@example.org "Good morning"

Mails are written to `outbox.txt`. Stop the worker with Ctrl-C.
"""

import logging
import sys
from datetime import date
from pathlib import Path

import tenure

OUTBOX = Path("outbox.txt")
READERS = ["ada@example.org", "grace@example.org"]

jobs = tenure.Jobs(retention=tenure.Retention(completed=3600))


class BadAddressError(ValueError):
    pass


@jobs.task(queue="mail", max_attempts=10, timeout=30, give_up_on=BadAddressError)
def send(to: str, subject: str) -> str:
    """Send one mail. The task may run twice, so it sends the same idempotency key each time."""
    if "@" not in to:
        raise BadAddressError(f"{to!r} is not an address")
    key = tenure.current().idempotency_key
    with OUTBOX.open("a") as outbox:
        outbox.write(f"{key} to {to}: {subject}\n")
    return key


@jobs.cron("0 8 * * MON-FRI", timezone="Europe/Berlin", missed="skip")
@jobs.task(queue="mail")
def digest() -> list[str]:
    """Enqueue the mails of the day. Fixed ids make a second run safe: the same id is the same job."""
    today = date.today().isoformat()  # noqa: DTZ011 - the local date
    return jobs.enqueue_many(send.using(id=f"digest:{today}:{to}").job(to, f"What is new on {today}") for to in READERS)


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with jobs:
        match arguments:
            case ["work"]:
                print(jobs.work(concurrency=4))
            case ["send", to, subject]:
                print(send.enqueue(to, subject))
            case _:
                sys.exit(f"usage: {sys.argv[0]} work | send TO SUBJECT")


if __name__ == "__main__":
    main(sys.argv[1:])
