"""Retry and cancel: by ids or by conditions, rehearsed or done, one job or a million."""

from collections import Counter
from functools import partial

import click

from tenure.cli.bulk import Act, Bulk
from tenure.cli.exit_codes import Code, complain
from tenure.cli.job_table import listed
from tenure.cli.json_output import record_of
from tenure.cli.output import Output
from tenure.cli.selection import Chosen, matching, named, refuse_unless
from tenure.cli.store_options import Place
from tenure.core.filters import Filters
from tenure.core.job import LIVE, State
from tenure.core.operations import Move, Moved

MOVABLE = {Move.RETRY: frozenset({State.FAILED, State.CANCELLED}), Move.CANCEL: LIVE}
DONE = {Move.RETRY: "retried", Move.CANCEL: "cancelled"}


def move_jobs(
    move: Move,
    place: Place,
    output: Output,
    *,
    ids: tuple[str, ...],
    filters: Filters,
    is_all: bool,
    reason: str | None,
    rate: float | None,
    dry_run: bool,
) -> int:
    """Move the jobs that were chosen, in one way; return the exit code."""
    states, done = MOVABLE[move], DONE[move]
    if bool(ids) + bool(filters) + is_all != 1:
        raise click.UsageError(
            f"say which jobs to {move}, in one way: ids, or conditions such as --queue mail, or --all"
        )
    if strange := set(filters.get("state") or ()) - states:
        raise click.UsageError(
            f"--state {min(strange)} cannot be: only {' or '.join(sorted(states))} jobs can be {done}"
        )
    with place.source() as store:
        if ids:
            jobs = named(store, ids)
            refuse_unless(states, done, jobs)
            chosen = Chosen([job.id for job in jobs], jobs)
        else:
            default = frozenset({State.FAILED}) if move is Move.RETRY else LIVE
            chosen = matching(store, {"state": sorted(default), **filters})
        if dry_run:
            return _rehearse(chosen, done, output)
        verb = store.retry if move is Move.RETRY else store.cancel
        return act_on(Bulk(chosen.ids, rate=rate, output=output), partial(verb, reason=reason), done, output)


def act_on(bulk: Bulk, act: Act, done: str, output: Output) -> int:
    """Do it, and tell what became of them; return the exit code."""
    refused: Counter[str] = Counter()
    moved: Counter[bool] = Counter()

    def note(each: Moved) -> None:
        if output.is_json:
            output.record({**record_of(each), "moved": each.moved})
        if each.refusal is not None:
            refused[each.refusal.value] += 1
        else:
            moved[each.state is State.RUNNING] += 1

    number = bulk.run(act, note)
    output.say(f"{done}: {moved[False]:,}")
    if moved[True]:
        output.say(f"asked to stop, since they run: {moved[True]:,}")
    for why, count in refused.items():
        complain(f"not {done}: {count:,}, {why}")
    if bulk.stopped_by and number < bulk.total:
        complain(f"stopped after {number:,} of {bulk.total:,}; the same command goes on with the rest")
        return 128 + bulk.stopped_by
    return Code.FAILED if refused else Code.DONE


def _rehearse(chosen: Chosen, done: str, output: Output) -> int:
    if output.is_json:
        for id in chosen.ids:
            output.record({"id": id, "moved": False, "why": "dry run"})
        return Code.DONE
    output.say(f"would be {done}: {len(chosen.ids):,}")
    if chosen.ids:
        listed(output, chosen.first)
        first = f"; the first {len(chosen.first)} are shown" if len(chosen.ids) > len(chosen.first) else ""
        output.note(f"nothing was done{first}; leave out --dry-run to do it")
    return Code.DONE
