"""A program without tasks: a loop claims jobs by hand, and stops on SIGTERM or Ctrl-C.

    python examples/plain_loop.py enqueue 20
    python examples/plain_loop.py

Start the second command any number of times: each job is claimed by one process only.
"""

import logging
import signal
import sys
import threading

import tenure

log = logging.getLogger("plain_loop")
jobs = tenure.Jobs()
stopping = threading.Event()


def resize(image: int, *, width: int = 100) -> str:
    """Do the work. In this example images are numbers, and some cannot be read."""
    if image % 10 == 0:
        raise ValueError(f"image {image} cannot be read")
    return f"{image}-{width}.png"


def run(claim: tenure.Claim) -> None:
    try:
        with claim:
            claim.result = resize(**claim.job.payload)
    except tenure.ClaimLost as exc:
        log.warning("%s", exc)
    except Exception:
        # The error is recorded on the job. tenure retries the job later, or marks it as failed if no attempt is left.
        log.exception("job %s failed, attempt %s", claim.id, claim.job.attempts)
    else:
        log.info("job %s completed: %s", claim.id, claim.result)


def work() -> None:
    while not stopping.is_set():
        with jobs.claim(types="resize", limit=5, wait=1) as claims:
            for claim in claims:
                if stopping.is_set():
                    break  # the remaining claims are released, and their attempts do not count
                run(claim)


def stop(*_: object) -> None:
    stopping.set()


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with jobs:
        if arguments[:1] == ["enqueue"]:
            number = int(arguments[1])
            jobs.enqueue_many(tenure.NewJob("resize", {"image": image}) for image in range(number))
            return
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        log.info("waiting for jobs")
        work()
        log.info("stopped")


if __name__ == "__main__":
    main(sys.argv[1:])
