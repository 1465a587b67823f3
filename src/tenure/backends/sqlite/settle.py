"""End claims: settle and reap."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.rows import ClaimColumns, HeldClaim, decode_worker, encode_names
from tenure.backends.sqlite.timestamps import duration, to_datetime
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.core.job import FINISHED, HISTORY_KEPT, Outcome, State
from tenure.core.operations import SILENT_WORKER_TTL, Event, Reaped, Settlement, WorkerInfo
from tenure.core.transitions import RULES, apply_cancel_request, expiry_note, is_exhausted, next_state

SETTLE = statements(__package__, "settle")
REAP = statements(__package__, "reap")
HISTORY = statements(__package__, "history")
WORKERS = statements(__package__, "workers")

RUNNING = State.RUNNING.value


def settle(write: WriteTransaction, settlements: Sequence[Settlement]) -> list[bool]:
    return [landed for part in _split_by_job(settlements) for landed in _settle(write, part)]


def reap_expired(write: WriteTransaction, limit: int) -> list[Reaped]:
    rows = [HeldClaim._make(row) for row in write.fetch_all(REAP["expired"], {"now": write.now, "limit": limit})]
    registered = _registered_workers(write, {held.worker for held in rows})
    return [_expire(write, held, registered.get(held.worker)) for held in rows]


def reap_worker(write: WriteTransaction, worker: str, started: Collection[str] | None, limit: int) -> list[Reaped]:
    rows = [HeldClaim._make(row) for row in write.fetch_all(REAP["of the worker"], {"worker": worker, "limit": limit})]
    registered = _registered_workers(write, {worker}).get(worker)
    return [
        _expire(write, held, registered, is_reported_dead=True)
        if started is None or held.id in started
        else _release(write, held)
        for held in rows
    ]


def record_history(
    write: WriteTransaction,
    held: HeldClaim | None = None,
    *,
    sequence: int,
    number: int,
    fence: int,
    outcome: Outcome,
    error: str | None,
) -> None:
    """Add a line to a job's history, and drop the oldest line beyond `HISTORY_KEPT`."""
    values = {
        "sequence": sequence,
        "number": number,
        "outcome": outcome.value,
        "fence": fence,
        "token": None if held is None else held.token,
        "worker": None if held is None else held.worker,
        "claimed_at": None if held is None else held.started_at,
        "now": write.now,
        "error": error,
    }
    write.execute(HISTORY["add"], values)
    if number > HISTORY_KEPT:
        write.execute(HISTORY["drop the oldest"], {"sequence": sequence, "dropped": number - HISTORY_KEPT})


def _split_by_job(settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Split the settlements into parts without two of the same job: the second must see the effect of the first."""
    part: dict[str, Settlement] = {}
    for settlement in settlements:
        if settlement.hold.id in part:
            yield list(part.values())
            part = {}
        part[settlement.hold.id] = settlement
    yield list(part.values())


def _settle(write: WriteTransaction, settlements: Sequence[Settlement]) -> list[bool]:
    ids = json.dumps([each.hold.id for each in settlements])
    found = {row[0]: ClaimColumns._make(row) for row in write.fetch_all(SETTLE["look up"], {"ids": ids})}
    landed: list[bool] = []
    completed: list[tuple[ClaimColumns, Settlement]] = []
    for settlement in settlements:
        job = found.get(settlement.hold.id)
        if job is None:
            landed.append(False)
        elif not _is_held_by(job, settlement):
            landed.append(has_ended := _landed_before(write, job, settlement))
            if not has_ended:
                write.count_event(job.queue, Event.REFUSED)
        else:
            landed.append(True)
            if settlement.state is State.COMPLETED:
                completed.append((job, settlement))
            else:
                _end_settled(write, job, settlement)
    if completed:
        _complete(write, completed)
    return landed


def _is_held_by(job: ClaimColumns, settlement: Settlement) -> bool:
    hold = settlement.hold
    return job.state == RUNNING and job.fence == hold.fence and job.token == hold.token


def _landed_before(write: WriteTransaction, job: ClaimColumns, settlement: Settlement) -> bool:
    """Return whether the same settlement landed before."""
    hold = settlement.hold
    if settlement.outcome is Outcome.COMPLETED:
        return job.state == State.COMPLETED and (job.fence, job.token) == (hold.fence, hold.token)
    values = {
        "sequence": job.sequence,
        "fence": hold.fence,
        "token": hold.token,
        "outcome": settlement.outcome.value,
    }
    return write.fetch_one(SETTLE["has ended"], values) is not None


def _complete(write: WriteTransaction, completed: Sequence[tuple[ClaimColumns, Settlement]]) -> None:
    write.execute_many(
        SETTLE["complete"],
        [(settlement.result, int(settlement.result_dropped), write.now, job.sequence) for job, settlement in completed],
    )
    for (queue, type), number in Counter((job.queue, job.type) for job, _ in completed).items():
        write.move_count((queue, type), "running", "completed", number)
        write.count_event(queue, Event.COMPLETED, number)


def _end_settled(write: WriteTransaction, job: ClaimColumns, settlement: Settlement) -> None:
    held = HeldClaim._make(write.fetch_one(SETTLE["held"], {"sequence": job.sequence}))
    state = apply_cancel_request(settlement.state, cancel_requested=bool(held.cancel_requested))
    is_later = settlement.delay is not None and state is State.QUEUED
    run_at = write.now + duration(settlement.delay or 0.0) if is_later else held.run_at
    _end_claim(
        write,
        held._replace(run_at=run_at, attempts=held.attempts + settlement.attempts),
        settlement.outcome,
        state,
        settlement.error,
    )


def _registered_workers(write: WriteTransaction, names: Collection[str]) -> dict[str, WorkerInfo]:
    """Return the registry entries of these workers, live or silent."""
    values = {"names": encode_names(sorted(names)), "silent_since": write.now - duration(SILENT_WORKER_TTL)}
    found = [decode_worker(row) for row in write.fetch_all(WORKERS["known"], values)]
    return {worker.name: worker for worker in found}


def _expire(
    write: WriteTransaction, held: HeldClaim, registered: WorkerInfo | None, *, is_reported_dead: bool = False
) -> Reaped:
    held = held._replace(crashes=held.crashes + RULES[Outcome.EXPIRED].crashes)
    spent = is_exhausted(held.attempts, held.max_attempts) or is_exhausted(held.crashes, held.max_crashes)
    state = next_state(Outcome.EXPIRED, exhausted=spent, cancel_requested=bool(held.cancel_requested))
    note = expiry_note(
        held.worker,
        claimed_at=to_datetime(held.started_at),
        leased_until=to_datetime(held.leased_until),
        registered=registered,
        is_reported_dead=is_reported_dead,
    )
    _end_claim(write, held, Outcome.EXPIRED, state, note)
    return Reaped(id=held.id, state=state, worker=held.worker, fence=held.fence)


def _release(write: WriteTransaction, held: HeldClaim) -> Reaped:
    """Release a job that a dead worker had not started."""
    held = held._replace(attempts=held.attempts + RULES[Outcome.RELEASED].attempts)
    state = next_state(Outcome.RELEASED, cancel_requested=bool(held.cancel_requested))
    _end_claim(write, held, Outcome.RELEASED, state)
    return Reaped(id=held.id, state=state, worker=held.worker, fence=held.fence)


def _end_claim(
    write: WriteTransaction, held: HeldClaim, outcome: Outcome, state: State, error: str | None = None
) -> None:
    """End a claim without completing the job; `held` has the new values."""
    column = write.counter_name(state, held.run_at)
    values = {
        "sequence": held.sequence,
        "state": state.value,
        "is_due": int(column == "due"),
        "run_at": held.run_at,
        "attempts": held.attempts,
        "crashes": held.crashes,
        "finished_at": write.now if state in FINISHED else None,
    }
    write.execute(SETTLE["end"], values)
    record_history(
        write,
        held,
        sequence=held.sequence,
        number=held.endings + 1,
        fence=held.fence,
        outcome=outcome,
        error=error,
    )
    write.move_count((held.queue, held.type), RUNNING, column)
    write.count_event(held.queue, Event(outcome))
