"""Claim, extend, settle, exchange and reap jobs."""

from collections.abc import Collection, Sequence

from tenure.backends.redis.encoding import (
    ALL_NAMES,
    Argument,
    decode_name,
    encode_duration,
    encode_json,
    encode_list,
    encode_names,
    encode_timestamp,
    quote_name,
)
from tenure.backends.redis.rows import DIGITS, STATES, decode_jobs
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import Job, Outcome, Progress
from tenure.core.operations import Claimed, ClaimRequest, Extension, Hold, HoldStatus, Reaped, Settlement

HOLD_STATUSES = (HoldStatus.LOST, HoldStatus.HELD, HoldStatus.CANCEL_REQUESTED)
"""Indexed by the digit in the response of `extend.lua`."""
LANDED_DIGIT = ord("1")


PIPELINED_EXCHANGE_MINIMUM = 64
"""From this many completions, `exchange` pipelines two scripts: the server settles while the client decodes jobs."""
NOTHING_EXPIRED = "nothing expired"
"""The hint of this store: a claim with a hint does not reap expired leases."""


def claim(server: Server, request: ClaimRequest) -> Claimed:
    return _build_claimed(
        decode_jobs(server.run(script("claim"), [encode_timestamp(server.now()), *_claim_arguments(request)]))
    )


def settle(server: Server, settlements: Sequence[Settlement]) -> list[bool]:
    return _decode_landed(
        server.run(script("settle"), [encode_timestamp(server.now()), *_settlement_arguments(settlements)])
    )


def exchange(server: Server, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
    only_completes = all(each.outcome is Outcome.COMPLETED for each in settlements)
    if request.hint is not None and len(settlements) >= PIPELINED_EXCHANGE_MINIMUM and only_completes:
        return _exchange_pipelined(server, settlements, request)
    arguments = [encode_timestamp(server.now()), *_settlement_arguments(settlements), *_claim_arguments(request)]
    landed, jobs = server.run(script("exchange"), arguments)
    return _decode_landed(landed), _build_claimed(decode_jobs(jobs))


def extend(server: Server, extensions: Sequence[Extension]) -> list[HoldStatus]:
    arguments: list[Argument] = [encode_timestamp(server.now()), len(extensions)]
    for each in extensions:
        arguments += [
            each.hold.id,
            f"{_encode_hold(each.hold)},{encode_duration(each.lease)}",
            _encode_progress(each.progress),
        ]
    return [HOLD_STATUSES[digit - ord("0")] for digit in server.run(script("extend"), arguments)]


def reap(server: Server, limit: int, worker: str | None, started: Collection[str] | None) -> list[Reaped]:
    had_started: list[Argument] = [ALL_NAMES] if worker is None or started is None else encode_list(started)
    arguments = [encode_timestamp(server.now()), limit, "" if worker is None else quote_name(worker), *had_started]
    response = server.run(script("reap"), arguments, may_repeat=False)
    return [
        Reaped(id=id.decode(), state=STATES[int(state)], worker=decode_name(holder), fence=int(fence))
        for id, state, holder, fence in zip(*[iter(response)] * 4, strict=True)
    ]


def _exchange_pipelined(
    server: Server, settlements: Sequence[Settlement], request: ClaimRequest
) -> tuple[list[bool], Claimed]:
    """Send a claim and then a settle, pipelined. Neither affects the other, and client and server work in parallel."""
    now = encode_timestamp(server.now())
    responses = server.run_pipelined(
        (script("claim"), [now, *_claim_arguments(request)]),
        lambda: (script("settle"), [now, *_settlement_arguments(settlements)]),
        decode_jobs,
    )
    if responses is None:
        return settle(server, settlements), claim(server, request)
    jobs, landed = responses
    return _decode_landed(landed), _build_claimed(jobs)


def _build_claimed(jobs: list[Job]) -> Claimed:
    return Claimed(jobs=jobs, hint=NOTHING_EXPIRED)


def _claim_arguments(request: ClaimRequest) -> list[Argument]:
    return [
        quote_name(request.worker),
        quote_name(request.token),
        request.limit,
        encode_duration(request.lease),
        int(request.hint is None),
        *encode_names(request.queues),
        *encode_names(request.types),
    ]


def _settlement_arguments(settlements: Sequence[Settlement]) -> list[Argument]:
    arguments: list[Argument] = [3 * len(settlements)]
    for each in settlements:
        delay = "" if each.delay is None else encode_duration(each.delay)
        fields = (
            f"{_encode_hold(each.hold)},{each.outcome},{DIGITS[each.state]},{each.attempts},{delay},"
            f"{int(each.result_dropped)}"
        )
        text = each.result if each.outcome is Outcome.COMPLETED else each.error and encode_json(each.error)
        arguments += (each.hold.id, fields, "null" if text is None else text)
    return arguments


def _encode_hold(hold: Hold) -> str:
    return f"{hold.fence},{quote_name(hold.token)}"


def _encode_progress(progress: Progress | None) -> str:
    """Encode progress for a row, quoted like a name; empty for None."""
    return "" if progress is None else quote_name(encode_json([progress.done, progress.of, progress.note]))


def _decode_landed(digits: bytes) -> list[bool]:
    return [digit == LANDED_DIGIT for digit in digits]
