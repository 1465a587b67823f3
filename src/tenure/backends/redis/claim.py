"""Holding jobs: claim, extend, settle, exchange, reap."""

from collections.abc import Collection, Sequence

from tenure.backends.redis.encoding import ALL, Argument, duration, json_text, listed, moment, name_of, names, quoted
from tenure.backends.redis.rows import DIGITS, STATES, jobs_of
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import Job, Outcome, Progress
from tenure.core.operations import Claimed, ClaimRequest, Extension, Hold, Holding, Reaped, Settlement

HOLDINGS = (Holding.LOST, Holding.HELD, Holding.CANCEL_REQUESTED)
"""By the digit that stands for each."""
LANDED = ord("1")


BESIDE = 64
"""From so many completions on they are done in a script of their own, while the jobs that were claimed are read."""
NOTHING_RAN_OUT = "nothing ran out"
"""The hint: a claim that has it takes nothing back."""


def claim(server: Server, request: ClaimRequest) -> Claimed:
    return _claimed(jobs_of(server.run(script("claim"), [moment(server.now()), *_claim(request)])))


def settle(server: Server, settlements: Sequence[Settlement]) -> list[bool]:
    return _landed(server.run(script("settle"), [moment(server.now()), *_settlements(settlements)]))


def exchange(server: Server, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
    only_completes = all(each.outcome is Outcome.COMPLETED for each in settlements)
    if request.hint is not None and len(settlements) >= BESIDE and only_completes:
        return _exchange_beside(server, settlements, request)
    arguments = [moment(server.now()), *_settlements(settlements), *_claim(request)]
    landed, jobs = server.run(script("exchange"), arguments)
    return _landed(landed), _claimed(jobs_of(jobs))


def extend(server: Server, extensions: Sequence[Extension]) -> list[Holding]:
    arguments: list[Argument] = [moment(server.now()), len(extensions)]
    for each in extensions:
        arguments += [each.hold.id, f"{_hold(each.hold)},{duration(each.lease)}", _progress(each.progress)]
    return [HOLDINGS[digit - ord("0")] for digit in server.run(script("extend"), arguments)]


def reap(server: Server, limit: int, worker: str | None, started: Collection[str] | None) -> list[Reaped]:
    had_started: list[Argument] = [ALL] if worker is None or started is None else listed(started)
    arguments = [moment(server.now()), limit, "" if worker is None else quoted(worker), *had_started]
    answer = server.run(script("reap"), arguments, may_repeat=False)
    return [
        Reaped(id=id.decode(), state=STATES[int(state)], worker=name_of(holder), fence=int(fence))
        for id, state, holder, fence in zip(*[iter(answer)] * 4, strict=True)
    ]


def _exchange_beside(
    server: Server, settlements: Sequence[Settlement], request: ClaimRequest
) -> tuple[list[bool], Claimed]:
    """Claim, then settle: neither can see the other, and so one side always has something to do."""
    now = moment(server.now())
    answers = server.run_both(
        (script("claim"), [now, *_claim(request)]),
        lambda: (script("settle"), [now, *_settlements(settlements)]),
        jobs_of,
    )
    if answers is None:
        return settle(server, settlements), claim(server, request)
    jobs, landed = answers
    return _landed(landed), _claimed(jobs)


def _claimed(jobs: list[Job]) -> Claimed:
    return Claimed(jobs=jobs, hint=NOTHING_RAN_OUT)


def _claim(request: ClaimRequest) -> list[Argument]:
    return [
        quoted(request.worker),
        quoted(request.token),
        request.limit,
        duration(request.lease),
        int(request.hint is None),
        *names(request.queues),
        *names(request.types),
    ]


def _settlements(settlements: Sequence[Settlement]) -> list[Argument]:
    arguments: list[Argument] = [3 * len(settlements)]
    for each in settlements:
        delay = "" if each.delay is None else duration(each.delay)
        said = (
            f"{_hold(each.hold)},{each.outcome},{DIGITS[each.state]},{each.attempts},{delay},{int(each.result_dropped)}"
        )
        text = each.result if each.outcome is Outcome.COMPLETED else each.error and json_text(each.error)
        arguments += (each.hold.id, said, "null" if text is None else text)
    return arguments


def _hold(hold: Hold) -> str:
    return f"{hold.fence},{quoted(hold.token)}"


def _progress(progress: Progress | None) -> str:
    """Return progress as a row has it: a name, as it were. Empty for None."""
    return "" if progress is None else quoted(json_text([progress.done, progress.of, progress.note]))


def _landed(digits: bytes) -> list[bool]:
    return [digit == LANDED for digit in digits]
