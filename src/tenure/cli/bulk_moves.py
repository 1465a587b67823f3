"""Retry or cancel jobs, selected by ids or filters; with --dry-run, only list them."""

from collections import Counter
from functools import partial

import click

from tenure.cli.bulk import Bulk, BulkAction
from tenure.cli.exit_codes import ExitCode, print_error
from tenure.cli.job_table import print_jobs
from tenure.cli.json_output import to_record
from tenure.cli.output import CommandOutput
from tenure.cli.selection import Selection, get_jobs, require_state, select_matching
from tenure.cli.store_options import StoreTarget
from tenure.core.filters import Filters
from tenure.core.job import LIVE, State
from tenure.core.operations import Move, Moved

MOVABLE_STATES = {Move.RETRY: frozenset({State.FAILED, State.CANCELLED}), Move.CANCEL: LIVE}
PAST_TENSE = {Move.RETRY: "retried", Move.CANCEL: "cancelled"}


def move_jobs(
    move: Move,
    store_target: StoreTarget,
    output: CommandOutput,
    *,
    ids: tuple[str, ...],
    filters: Filters,
    is_all: bool,
    reason: str | None,
    rate: float | None,
    dry_run: bool,
) -> int:
    """Retry or cancel the selected jobs; return the exit code."""
    states, done = MOVABLE_STATES[move], PAST_TENSE[move]
    if bool(ids) + bool(filters) + is_all != 1:
        raise click.UsageError(f"select the jobs to {move} by exactly one of: ids, filters such as --queue mail, --all")
    if invalid := set(filters.get("state") or ()) - states:
        raise click.UsageError(f"invalid --state {min(invalid)}: only {' or '.join(sorted(states))} jobs can be {done}")
    with store_target.source() as store:
        if ids:
            jobs = get_jobs(store, ids)
            require_state(states, done, jobs)
            chosen = Selection([job.id for job in jobs], jobs)
        else:
            default = frozenset({State.FAILED}) if move is Move.RETRY else LIVE
            chosen = select_matching(store, {"state": sorted(default), **filters})
        if dry_run:
            return _print_dry_run(chosen, done, output)
        verb = store.retry if move is Move.RETRY else store.cancel
        return run_bulk(Bulk(chosen.ids, rate=rate, output=output), partial(verb, reason=reason), done, output)


def run_bulk(bulk: Bulk, act: BulkAction, done: str, output: CommandOutput) -> int:
    """Run the bulk operation and print its counts; return the exit code."""
    refused: Counter[str] = Counter()
    moved: Counter[bool] = Counter()

    def record(each: Moved) -> None:
        if output.is_json:
            output.print_record({**to_record(each), "moved": each.moved})
        if each.refusal is not None:
            refused[each.refusal.value] += 1
        else:
            moved[each.state is State.RUNNING] += 1

    number = bulk.run(act, record)
    output.print_text(f"{done}: {moved[False]:,}")
    if moved[True]:
        output.print_text(f"running, cancel requested: {moved[True]:,}")
    for why, count in refused.items():
        print_error(f"not {done}: {count:,} ({why})")
    if bulk.stop_signal and number < bulk.total:
        print_error(f"stopped after {number:,} of {bulk.total:,}; run the same command again for the rest")
        return 128 + bulk.stop_signal
    return ExitCode.FAILED if refused else ExitCode.DONE


def _print_dry_run(selection: Selection, done: str, output: CommandOutput) -> int:
    if output.is_json:
        for id in selection.ids:
            output.print_record({"id": id, "moved": False, "why": "dry run"})
        return ExitCode.DONE
    output.print_text(f"would be {done}: {len(selection.ids):,}")
    if selection.ids:
        print_jobs(output, selection.first)
        first = f" (first {len(selection.first)} shown)" if len(selection.ids) > len(selection.first) else ""
        output.print_note(f"dry run: nothing was changed{first}; run without --dry-run to apply")
    return ExitCode.DONE
