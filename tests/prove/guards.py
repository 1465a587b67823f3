"""Remove each guard of the stores, the client, the worker and the command line in turn; a test must fail.

Run with `./dev prove guards`, or `./dev prove guards sqlite` for one part. The report names the first failing test. For
memory, the report also shows whether the random run against the plain model fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.prove.cli_guards import CLI_GUARDS
from tests.prove.connection_guards import CONNECTION_GUARDS
from tests.prove.guard import Guard
from tests.prove.postgres_guards import POSTGRES_GUARDS
from tests.prove.redis_guards import REDIS_GUARDS
from tests.prove.service_guards import SERVICE_GUARDS
from tests.prove.supervisor_guards import SUPERVISOR_GUARDS
from tests.prove.table_guards import (
    TABLE_CLIENT_GUARDS,
    TABLE_MIGRATION_GUARDS,
    TABLE_POSTGRES_GUARDS,
    TABLE_SQLITE_GUARDS,
)
from tests.prove.worker_guards import PROCESS_GUARDS, WORKER_GUARDS

ROOT = Path(__file__).parents[2]
LONGEST_RUN = 900
"""Seconds after which a run of the tests is ended: without some guards a thread never returns, and pytest cannot exit."""
MEMORY = Path("src/tenure/backends/memory")
SQLITE = Path("src/tenure/backends/sqlite")
POSTGRES = Path("src/tenure/backends/postgres")
REDIS = Path("src/tenure/backends/redis")
CLIENT = Path("src/tenure")
SQLITE_TABLES = Path("src/tenure/backends/tables/sqlite")
POSTGRES_TABLES = Path("src/tenure/backends/tables/postgres")
PYTEST = ["-m", "pytest", "-x", "-q", "--no-header", "-o", "timeout=60"]
CONFORMANCE = "src/tenure/testing/conformance"
STORE_TESTS = [*PYTEST, CONFORMANCE, "--deselect", f"{CONFORMANCE}/queueing/test_model.py"]
MEMORY_TESTS = [*STORE_TESTS, "tests/memory/test_memory.py", "-k", "memory"]
SQLITE_TESTS = [*STORE_TESTS, "tests/sqlite", "tests/stores", "tests/jobs", "-k", "sqlite"]
POSTGRES_TESTS = [
    *STORE_TESTS,
    "tests/postgres",
    "tests/stores",
    "--deselect",
    "tests/postgres/test_proxy.py",
    "--deselect",
    "tests/postgres/test_pooler.py",
    "-k",
    "postgres-18 or test_waiter or (test_neighbours and not (postgres- or memory or sqlite or redis or valkey))",
]
REDIS_TESTS = [
    *STORE_TESTS,
    "tests/redis",
    "tests/stores",
    "--deselect",
    "tests/redis/test_proxy.py",
    "-k",
    "valkey-9 or test_address or test_durability or test_refusals or test_urls",
]
TRANSACTION_TESTS = [
    "tests/stores/test_transactions.py",
    "tests/stores/test_joined_completions.py",
    "tests/stores/test_joined_enqueueing.py",
]
CONNECTION_TESTS = [
    *PYTEST,
    "tests/connections",
    "tests/postgres/test_broken_transactions.py",
    *TRANSACTION_TESTS,
    "tests/postgres/test_transactions.py",
    "tests/postgres/test_awaited_transactions.py",
    "tests/postgres/test_bad_moments.py",
    "-k",
    "postgres-18",
]
CLIENT_TESTS = [
    *PYTEST,
    "tests/core/test_payload.py",
    "tests/jobs",
    "tests/worker/test_neighbours.py",
    *TRANSACTION_TESTS,
    "tests/sqlite/test_transactions.py",
    "tests/sqlite/test_joined.py",
    "tests/sqlite/test_processes.py",
    "-k",
    "not (postgres or redis or valkey)",
]
WORKER_TESTS = [
    *PYTEST,
    "tests/worker/test_run_queue.py",
    "tests/worker/test_quarantine.py",
    "tests/worker/test_parts.py",
    "tests/tasks/test_task.py",
    "tests/jobs/test_keeper.py",
    "tests/worker/test_neighbours.py",
    "tests/worker",
    "-k",
    "not (postgres or redis or valkey)",
]
SERVICE_TESTS = [*PYTEST, "tests/service", "tests/worker/test_logging.py", "-k", "not (postgres or redis or valkey)"]
PROCESS_TESTS = [*PYTEST, "-o", "timeout=120", "tests/processes", "-k", "not (postgres or redis or valkey)"]
CLI_TESTS = [
    *PYTEST,
    "tests/cli/test_jobs.py",
    "tests/cli/test_enqueue.py",
    "tests/cli/test_looking.py",
    "tests/cli/test_program.py",
    "tests/jobs/test_claims.py",
    "tests/cli/test_claims.py",
    "tests/cli/test_exec.py",
    "tests/cli/test_exec_stopped.py",
    "tests/cli/test_exec_refused.py",
    "tests/cli/test_work.py",
    "tests/cli/test_signals.py",
]
SUPERVISOR_TESTS = [*PYTEST, "tests/supervisor"]
SQLITE_TABLE_TESTS = [
    *PYTEST,
    f"{CONFORMANCE}/claiming",
    "tests/tables",
    "--deselect",
    f"{CONFORMANCE}/claiming/test_races.py",
    "-k",
    "(table-sqlite or sidecar-sqlite or test_sqlite or test_table or reborn) and not processes and not postgres",
]
POSTGRES_TABLE_TESTS = [
    *PYTEST,
    f"{CONFORMANCE}/claiming",
    "tests/tables/test_postgres_rows.py",
    "tests/tables/test_postgres_neighbours.py",
    "tests/tables/test_postgres_joined.py",
    "tests/tables/test_postgres_names.py",
    "tests/tables/test_table_claims.py",
    "tests/tables/test_table_worker.py",
    "-k",
    "postgres-18 and not hundred and (table or sidecar or test_postgres)",
]
MIGRATION_TESTS = [
    *PYTEST,
    "tests/tables/test_postgres_ddl.py",
    "tests/tables/test_reborn_rows.py",
    "tests/tables/test_postgres_reborn.py",
    "tests/tables/test_postgres_functions.py",
    "tests/tables/test_postgres_flat.py",
    "-k",
    "not postgres-16",
]
TABLE_CLIENT_TESTS = [
    *PYTEST,
    "tests/core/test_table_condition.py",
    "tests/core/test_table.py",
    "tests/tables/test_rows.py",
    "tests/tables/test_table_claims.py",
    "tests/tables/test_table_verbs.py",
    "tests/tables/test_table_worker.py",
    "tests/tables/test_table_aio.py",
    "tests/worker/test_sources.py",
    "tests/cli/test_rows.py",
    "-k",
    "not postgres or (postgres-18 and the_database_refuses)",
]
MEMORY_MACHINE = """
from tenure.testing.conformance.machine import compare
from tests.model.test_reference import open_pair
compare(open_pair, examples=150, steps=50)
"""


GUARDS = [
    Guard("a payload that Python cannot read is text", "record.py", "            decode_or_text(record.payload),\n", "            __import__('json').loads(record.payload),\n"),
    Guard("fence", "record.py", "self.fence == hold.fence and ", ""),
    Guard("token", "record.py", " and self.token == hold.token\n\n    def landed_before", "\n\n    def landed_before"),
    Guard("state", "record.py", "return self.state is State.RUNNING and self.fence", "return self.fence"),
    Guard("the fence rises with each claim", "record.py", "self.fence += 1", "self.fence = 1"),
    Guard("the fence outlives an operator's retry", "record.py", "self.attempts = self.crashes = 0", "self.attempts = self.crashes = self.fence = 0"),
    Guard("attempts are counted at the claim", "record.py", "        self.attempts += 1\n", ""),
    Guard("attempts are given back", "record.py", "self.attempts += settlement.attempts", "pass"),
    Guard("spent attempts fail an expired job", "record.py", "is_exhausted(self.attempts, self.record.max_attempts) or ", ""),
    Guard("crashes are counted", "record.py", "self.crashes += RULES[Outcome.EXPIRED].crashes", "pass"),
    Guard("spent crashes fail an expired job", "record.py", " or is_exhausted(\n            self.crashes, self.record.max_crashes\n        )", ""),
    Guard("a cancel that was asked for wins over other endings", "record.py", "apply_cancel_request(settlement.state, cancel_requested=self.cancel_requested)", "settlement.state"),
    Guard("a cancel that was asked for wins over expiry", "record.py", "exhausted=spent, cancel_requested=self.cancel_requested", "exhausted=spent"),
    Guard("a cancel that was asked for ends with the claim", "record.py", "        self.cancel_requested = False\n", ""),
    Guard("an extension never shortens", "record.py", "if self.leased_until is None or until > self.leased_until:", "if True:"),
    Guard("a settlement sent again landed", "record.py", "return any((ending.fence, ending.token, ending.outcome) == expected for ending in self.history)", "return False"),
    Guard("a completion sent again landed", "record.py", "return self.state is State.COMPLETED and (self.fence, self.token, Outcome.COMPLETED) == expected", "return False"),
    Guard("an expired claim is not one that settled", "record.py", "(ending.fence, ending.token, ending.outcome) == expected", "(ending.fence, ending.token) == expected[:2]"),
    Guard("the history is bounded", "record.py", "if len(self.history) > HISTORY_KEPT:", "if False:"),
    Guard("no progress of an earlier claim", "record.py", "        self.started_at = now\n        self.progress = None\n", "        self.started_at = now\n"),
    Guard("expiry (a live lease is not reaped)", "index.py", "None if first is None or first[0] > now else", "None if first is None else"),
    Guard("expiry (an expired lease is reaped by a claim)", "backend.py", "            self._reap_expired(now, SWEEP)\n", ""),
    Guard("limit of a claim", "index.py", "pop_in_order(self._promoted_lanes(queues, types, now), limit)", "pop_in_order(self._promoted_lanes(queues, types, now), 10**9)"),
    Guard("a claim reaps a bounded number", "backend.py", "self._reap_expired(now, SWEEP)", "self._reap_expired(now, 10**9)"),
    Guard("the oldest of a burst are let in first", "index.py", "pop_in_order((lane.scheduled for lane in lanes), most, until=now)", "[id for lane in lanes for id in pop_in_order([lane.scheduled], most, until=now)][:most]"),
    Guard("stats count a burst", "index.py", "self._promote([lane], now, SCAN)", "self._promote([lane], now, SWEEP)"),
    Guard("only started jobs crashed", "backend.py", "if started is None or job.record.id in started:", "if True:"),
    Guard("a wait waits", "waiters.py", "self._event.wait(timeout)", "pass"),
    Guard("a wait knows when leases run out", "index.py", "waiting = [self._leases_by_expiry, *(", "waiting = [*("),
    Guard("an operator's note is no error", "search.py", " if each.outcome is not Outcome.OPERATOR)", ")"),
    Guard("started_at is the last claim's", "record.py", "self.started_at = now\n", "self.started_at = self.started_at or now\n"),
    Guard("limit of a reap", "backend.py", "while len(reaped) < limit and ", "while "),
    Guard("limit of a purge", "index.py", "pop_in_order(finished, limit, until=until)", "pop_in_order(finished, 10**9, until=until)"),
    Guard("due", "lane.py", "if job.run_at <= now:", "if True:"),
    Guard("due (not promoted too early)", "index.py", "most, until=now)", "most)"),
    Guard("due (promoted at all)", "index.py", "self._promote(lanes, now, SWEEP)", "pass"),
    Guard("priority", "record.py", "return -self.record.priority, self.run_at", "return 0, self.run_at"),
    Guard("run_at order", "record.py", "return -self.record.priority, self.run_at, self.sequence", "return -self.record.priority, self.created_at, self.sequence"),
    Guard("enqueue order", "record.py", "priority, self.run_at, self.sequence", "priority, self.run_at, -self.sequence"),
    Guard("the order across queues and types", "priority_queue.py", "    heapify(heads)\n    while", "    while"),
    Guard("queues asked for", "index.py", "self._lanes.items() if queues is None else ((each, self._lanes.get(each, {})) for each in queues)", "self._lanes.items()"),
    Guard("types asked for", "index.py", "(lanes.values() if types is None else (lanes[each] for each in types if each in lanes))", "lanes.values()"),
    Guard("pause", "index.py", "            if queue not in self.paused\n", ""),
    Guard("key", "backend.py", "            if holder is not None:\n                return Enqueued(id=holder, created=False)\n", ""),
    Guard("key (told apart by queue)", "index.py", "self._by_key.get((queue, key))", "next((id for (_, each), id in self._by_key.items() if each == key), None)"),
    Guard("key (raise)", "backend.py", 'if holder is not None and record.on_conflict == "raise":', "if False:"),
    Guard("key (within one request)", "backend.py", " or keys.get((record.queue, record.key))", ""),
    Guard("key (freed at the end)", "index.py", "            del self._by_key[record.queue, record.key]\n", "            pass\n"),
    Guard("key (on retry)", "backend.py", "refused = Refusal.KEY_TAKEN", "pass"),
    Guard("the same id is the same job", "backend.py", "if record.id in self._index.jobs or record.id in planned:", "if False:"),
    Guard("all or none", "backend.py", "        planned[record.id] = record\n", "        self._store(record, self._clock())\n"),
    Guard("a repeated token", "backend.py", "        if not jobs:\n", "        if True:\n"),
    Guard("legal moves", "backend.py", "refused = refusal(move, job.state, cancel_requested=job.cancel_requested)", "refused = None"),
    Guard("only finished jobs are deleted", "backend.py", "if job.state not in DELETABLE:", "if False:"),
    Guard("only old jobs are purged", "index.py", "limit, until=until)", "limit)"),
    Guard("only named states are purged", "index.py", "if state in states and ", "if "),
    Guard("a named worker only", "backend.py", "sorted(self._index.held_by_worker(worker),", "sorted((each for each in self._index.jobs.values() if each.state is State.RUNNING),"),
    Guard("payloads are not shared", "record.py", "dict(record.meta)", "record.meta"),
    Guard("refused writes are counted", "backend.py", "                self._event_counts.add(job.record.queue, Event.REFUSED, now)\n", "                pass\n"),
    Guard("silent workers are not shown", "registry.py", "            if shown_until > now\n", ""),
    Guard("a worker that comes back starts anew", "registry.py", "known is None or shown_until <= now", "known is None"),
    Guard("a silent worker is remembered", "registry.py", "worker if shown_until > now - EVIDENCE_TTL else", "worker if shown_until > now else"),
    Guard("a silent worker is not remembered for ever", "registry.py", "return worker if shown_until > now - EVIDENCE_TTL else None", "return worker"),
    Guard("a silent worker stays in the registry", "registry.py", "if shown_until <= now - EVIDENCE_TTL]", "if shown_until <= now]"),
    Guard("a silent worker does not stay for ever", "registry.py", "if shown_until <= now - EVIDENCE_TTL]", "if False]"),
    Guard("evidence", "backend.py", "self._registry.find(worker, now)", "None"),
    Guard("a worker is said to be dead", "backend.py", "started, is_reported_dead=True)", "started)"),
    Guard("a slot is given out once", "backend.py", "self._schedules.record(name, last_at)", "self._schedules.record(name, before or now)"),
    Guard("a schedule begins when it is first asked for", "backend.py", "            self._schedules.record(name, last_at)\n", "            if new_slots:\n                self._schedules.record(name, last_at)\n"),
    Guard("a schedule makes up for nothing before it began", "backend.py", "outstanding_slots(slots, before or now)", "outstanding_slots(slots, before or now.replace(year=1970))"),
    Guard("a schedule that is refused has not begun", "backend.py", "            enqueued = self._enqueue([slot.", "            self._schedules.record(name, before or now)\n            enqueued = self._enqueue([slot."),
    Guard("a schedule that is broken off is undone", "backend.py", "        self._schedules.restore(self._undo_log.schedules)\n", ""),
    Guard("standing: paused", "backend.py", "is_paused=job.record.queue in self._index.paused", "is_paused=False"),
    Guard("standing: nothing is ahead of what is not due", "backend.py", "is_due = job.state is State.QUEUED and job.run_at <= now", "is_due = True"),
    Guard("standing: the order of claims", "index.py", "count_before(job.claim_order, ", "count_before(job.claim_order[:1], "),
    Guard("standing: queues given", "index.py", "lanes = self._unpaused_lanes(queues, types)\n        self._promote(lanes, now, SCAN)", "lanes = self._unpaused_lanes(None, types)\n        self._promote(lanes, now, SCAN)"),
    Guard("standing: types given", "index.py", "lanes = self._unpaused_lanes(queues, types)\n        self._promote(lanes, now, SCAN)", "lanes = self._unpaused_lanes(queues, None)\n        self._promote(lanes, now, SCAN)"),
    Guard("standing: what came due is ahead", "index.py", "        self._promote(lanes, now, SCAN)\n        number = 0\n", "        number = 0\n"),
    Guard("standing: what was removed is not ahead", "priority_queue.py", "number += entries.get(heap[at][-1]) is heap[at]", "number += 1"),
    Guard("standing: a bounded number", "index.py", "MAX_AHEAD_COUNTED - number", "10**9"),
    Guard("standing: a holder only while it runs", "backend.py", "self._registry.find(str(job.worker), now) if job.state is State.RUNNING else None", "self._registry.find(str(job.worker), now)"),
    Guard("the lock", "backend.py", "        with self._lock:\n            if self._undo_log", "        if True:\n            if self._undo_log"),
]  # fmt: skip

SQLITE_GUARDS = [
    Guard("a payload that Python cannot read is text", "rows.py", "        decode_or_text(payload.decode(errors=ESCAPED)),\n", "        json.loads(payload.decode(errors=ESCAPED)),\n"),
    Guard("a payload that is not UTF-8 is read", "rows.py", 'ESCAPED = "surrogateescape"', 'ESCAPED = "strict"'),
    Guard("labels that are not JSON are none", "rows.py", "    return found if isinstance(found, dict) else {}\n", "    return found\n"),
    Guard("fence", "settle.py", "job.fence == hold.fence and ", ""),
    Guard("token", "settle.py", " and job.token == hold.token\n", "\n"),
    Guard("state", "settle.py", "job.state == RUNNING and ", ""),
    Guard("fence (extend)", "extend.sql", " and fence = :fence", ""),
    Guard("token (extend)", "extend.sql", " and token = :token", ""),
    Guard("state (extend)", "extend.sql", " and state = 'running'", ""),
    Guard("an extension never shortens", "extend.sql", "max(leased_until, :leased_until)", ":leased_until"),
    Guard("no progress keeps what was there", "extend.sql", "coalesce(:progress, progress)", ":progress"),
    Guard("the fence rises with each claim", "claim.sql", "fence = fence + 1", "fence = 1"),
    Guard("attempts are counted at the claim", "claim.sql", "  attempts = attempts + 1,\n", ""),
    Guard("no progress of an earlier claim", "claim.sql", "  started_at = :now,\n  progress = null\n", "  started_at = :now\n"),
    Guard("started_at is the last claim's", "claim.sql", "  started_at = :now,\n", "  started_at = coalesce(started_at, :now),\n"),
    Guard("a repeated token", "claim.py", "    if holds_jobs:\n", "    if False:\n"),
    Guard("expiry (an expired lease is reaped by a claim)", "claim.py", "        reap_expired(write, SWEEP)\n", ""),
    Guard("a claim reaps a bounded number", "claim.py", "reap_expired(write, SWEEP)", "reap_expired(write, 10**9)"),
    Guard("what was reaped can be taken at once", "claim.py", "        reap_expired(write, SWEEP)\n        write.flush()\n", "        reap_expired(write, SWEEP)\n"),
    Guard("what was settled can be taken at once", "claim.py", "    # The claim finds jobs through the counters of their lanes, so these must be up to date.\n    write.flush()\n", ""),
    Guard("expiry (a live lease is not reaped)", "reap.sql", "where state = 'running' and leased_until <= :now", "where state = 'running'"),
    Guard("limit of a reap", "reap.sql", "order by leased_until, sequence\nlimit :limit;\n\n-- name: of", "order by leased_until, sequence;\n\n-- name: of"),
    Guard("the longest expired first", "reap.sql", "order by leased_until, sequence\nlimit :limit;\n\n-- name: of", "order by sequence\nlimit :limit;\n\n-- name: of"),
    Guard("a named worker only", "reap.sql", " and worker = :worker", ""),
    Guard("only started jobs crashed", "settle.py", "if started is None or held.id in started\n", "if True\n"),
    Guard("due (not let in too early)", "claim.sql", "  and first.run_at <= :now;", ";"),
    Guard("due (not let in too early, behind the first)", "claim.sql", " and run_at <= :now\norder", "\norder"),
    Guard("due (let in at all)", "claim.py", "        _promote(write, request)\n", "        pass\n"),
    Guard("the oldest of a burst are let in first", "claim.sql", "where state = 'queued' and is_due = 0 and queue = :queue and type = :type and run_at <= :now\norder by run_at, sequence", "where state = 'queued' and is_due = 0 and queue = :queue and type = :type and run_at <= :now\norder by run_at desc, sequence"),
    Guard("a claim lets in a bounded number", "claim.py", '"came due", request, SWEEP)', '"came due", request, 10**9)'),
    Guard("limit of a claim", "merge.py", "list(islice(rows, limit))", "list(rows)"),
    Guard("priority", "claim.sql", "where is_due = 1 and queue = :queue and type = :type\norder by priority desc, run_at, sequence", "where is_due = 1 and queue = :queue and type = :type\norder by run_at, sequence"),
    Guard("enqueue order", "claim.sql", "where is_due = 1 and queue = :queue and type = :type\norder by priority desc, run_at, sequence", "where is_due = 1 and queue = :queue and type = :type\norder by priority desc, run_at, sequence desc"),
    Guard("the order across queues and types", "merge.py", "    heapify(heads)\n", ""),
    Guard("queues asked for", "lanes.sql", "cross join tenure_lanes lane indexed by {{index}} on lane.queue = requested_queue.value\n", "cross join tenure_lanes lane indexed by {{index}}\n"),
    Guard("types asked for", "claim.sql", "  and (:types is null or lane.type in (select value from json_each(:types)))\n  and lane.queue not in (select queue from tenure_paused);", "  and lane.queue not in (select queue from tenure_paused);"),
    Guard("pause", "claim.sql", "  and lane.queue not in (select queue from tenure_paused);", ";"),
    Guard("attempts are given back", "settle.py", "held.attempts + settlement.attempts", "held.attempts"),
    Guard("crashes are counted", "settle.py", "held.crashes + RULES[Outcome.EXPIRED].crashes", "held.crashes"),
    Guard("spent attempts fail an expired job", "settle.py", "is_exhausted(held.attempts, held.max_attempts) or ", ""),
    Guard("spent crashes fail an expired job", "settle.py", " or is_exhausted(held.crashes, held.max_crashes)", ""),
    Guard("a cancel that was asked for wins over other endings", "settle.py", "apply_cancel_request(settlement.state, cancel_requested=bool(held.cancel_requested))", "settlement.state"),
    Guard("a cancel that was asked for wins over expiry", "settle.py", "exhausted=spent, cancel_requested=bool(held.cancel_requested)", "exhausted=spent"),
    Guard("a cancel that was asked for ends with the claim", "settle.sql", "  leased_until = null,\n  cancel_requested = 0,\n  result", "  leased_until = null,\n  result"),
    Guard("a settlement sent again landed", "settle.py", 'return write.fetch_one(SETTLE["has ended"], values) is not None', "return False"),
    Guard("a completion sent again landed", "settle.py", "return job.state == State.COMPLETED and (job.fence, job.token) == (hold.fence, hold.token)", "return False"),
    Guard("an expired claim is not one that settled", "settle.sql", " and outcome = :outcome", ""),
    Guard("two endings of one job in a batch", "settle.py", "        if settlement.hold.id in part:\n", "        if False:\n"),
    Guard("the history is bounded", "settle.py", "if number > HISTORY_KEPT:", "if False:"),
    Guard("refused writes are counted", "settle.py", "                write.count_event(job.queue, Event.REFUSED)\n", "                pass\n"),
    Guard("key", "../../core/enqueue_plan.py", "            if holder is not None:\n                results.append(Enqueued(id=holder, created=False))\n                continue\n", ""),
    Guard("key (raise)", "../../core/enqueue_plan.py", 'if holder is not None and record.on_conflict == "raise":', "if False:"),
    Guard("key (within one request)", "../../core/enqueue_plan.py", "keys.get((record.queue, record.key)) or ", ""),
    Guard("key (told apart by queue)", "enqueue.sql", "where queue = :queue and key = :key and", "where key = :key and"),
    Guard("key (freed at the end)", "enqueue.sql", " and state in ('queued', 'running');", ";"),
    Guard("key (on retry)", "move.py", "        refused = Refusal.KEY_TAKEN\n", "        pass\n"),
    Guard("the same id is the same job", "../../core/enqueue_plan.py", "        if record.id in known_ids:\n", "        if False:\n"),
    Guard("a number is given once", "enqueue.sql", "select coalesce(max(seq), 0)\nfrom sqlite_sequence\nwhere name = 'tenure_jobs';", "select coalesce(max(sequence), 0)\nfrom tenure_jobs;"),
    Guard("legal moves", "move.py", "refusal(move, state, cancel_requested=bool(job.cancel_requested))", "None"),
    Guard("only finished jobs are deleted", "move.py", "if job.state not in DELETABLE:", "if False:"),
    Guard("only old jobs are purged", "purge.sql", "  and first.finished_at <= :before;", ";"),
    Guard("only old jobs are purged, behind the first", "purge.sql", " and finished_at <= :before\norder", "\norder"),
    Guard("nothing is left of a job that is forgotten", "move.py", 'for table in ("job", "payload", "history"):', 'for table in ("job",):'),
    Guard("silent workers are not shown", "workers.sql", "where shown_until > :now\n", ""),
    Guard("a worker that comes back starts anew", "workers.sql", "  started_at = case when shown_until > excluded.beat_at then started_at else excluded.started_at end,\n", ""),
    Guard("a silent worker is not remembered for ever", "workers.sql", " and shown_until > :silent_since;", ";"),
    Guard("a silent worker stays in the registry", "backend.py", "write.now - duration(SILENT_WORKER_TTL)", "write.now"),
    Guard("a silent worker does not stay for ever", "workers.sql", "where shown_until <= :silent_since;", "where false;"),
    Guard("evidence", "settle.py", "_expire(write, held, registered.get(held.worker))", "_expire(write, held, None)"),
    Guard("a silent worker is remembered", "settle.py", "write.now - duration(SILENT_WORKER_TTL)", "write.now"),
    Guard("a worker is said to be dead", "settle.py", "_expire(write, held, registered, is_reported_dead=True)", "_expire(write, held, registered)"),
    Guard("a slot is given out once", "schedule.py", "    if new_slots or found is None:\n", "    if found is None:\n"),
    Guard("a schedule begins when it is first asked for", "schedule.py", "    if new_slots or found is None:\n", "    if new_slots:\n"),
    Guard("a schedule makes up for nothing before it began", "schedule.py", "to_datetime(write.now if found is None", "to_datetime(0 if found is None"),
    Guard("schedules do not know of each other", "schedule.sql", "where name = :name;", "order by last_at desc;"),
    Guard("an older file is brought up to date", "migrations.py", "return version == current_version()", "return version > 0"),
    Guard("a wait waits", "wait.py", "closing.wait(min(left, pause * random.uniform(0.5, 1.0)))", "False"),
    Guard("a wait sees what others commit", "wait.py", "if (version := database.data_version(pause / 2)) != seen:", "if (version := database.data_version(pause / 2)) and seen is None:"),
    Guard("a wait knows when leases run out", "wait.sql", "select min(first), (select min(leased_until) from tenure_jobs where state = 'running')", "select min(first), null"),
    Guard("the lock of processes", "process_lock.py", "fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass"),
    Guard("pauses that do not grow", "process_lock.py", "SHORTEST_PAUSE, LONGEST_PAUSE, PAUSE_GROWTH = 0.000_2, 0.002, 1.1", "SHORTEST_PAUSE, LONGEST_PAUSE, PAUSE_GROWTH = 0.001, 0.100, 2.0"),
    Guard("patience with other writers", "busy_retry.py", "if not is_busy(exc) or STATEMENTS_IN_PROGRESS in str(exc) or time.monotonic() >= ends_at:", "if True:"),
    Guard("patience ends", "busy_retry.py", " or time.monotonic() >= ends_at", ""),
    Guard("what is broken off is undone", "database.py", "            finally:\n                try:\n                    _roll_back(db)\n                except BaseException:\n                    _roll_back(db)\n                    raise\n", "            finally:\n                pass\n"),
    Guard("durable by default", "backend.py", 'synchronous: Synchronous = "full",', 'synchronous: Synchronous = "normal",'),
    Guard("a deleted file is noticed", "database.py", "        if file_checks.file_identity(self.path) != self._writer.identity:\n", "        if False:\n"),
    Guard("a deleted file is not begun anew", "connect.py", "    if is_new and not may_create:\n", "    if False:\n"),
    Guard("a connection that failed is not used again", "database.py", "        writer, self._writer = self._writer, None\n        if writer", "        writer = None\n        if writer"),
    Guard("nothing open crosses a fork", "database.py", "        if self._transaction is None and self._acquire_thread_locks(FORK_TIMEOUT):\n            self._close(FORK_TIMEOUT)\n", "        pass\n"),
    Guard("a child that was forked in between is told", "database.py", "        self._was_forked_in_use = bool(left_open)\n", ""),
    Guard("what would wait for itself is refused", "database.py", "        if self._is_inside_transaction():\n            raise", "        if False:\n            raise"),
    Guard("a newer schema is refused", "migrations.py", "    if version > current_version():\n", "    if False:\n"),
    Guard("a network file system is refused", "file_checks.py", "is not None and NETWORK_FILE_SYSTEMS.fullmatch(kind):", "is None:"),
    Guard("an old library is refused", "library.py", "    if version < OLDEST_SUPPORTED:\n", "    if False:\n"),
    Guard("a user's journal mode stays", "connect.py", "    if is_bare or application != APPLICATION_ID:\n", "    if False:\n"),
    Guard("the tables are there for a connection of the caller's", "database.py", "        self._writer_identity()\n        try:\n", "        try:\n"),
    Guard("a transaction ends with its block", "guarded_connection.py", "        reject_ending(statement)\n", ""),
    Guard("nothing is written after SQLite rolled back", "guarded_connection.py", "        if not self.in_transaction:\n            raise", "        if False:\n            raise"),
    Guard("a child does not end its parent's transaction", "database.py", "                yield db\n                self._reject_if_forked_in_use()\n", "                yield db\n"),
    Guard("one file has one lock", "backend.py", "Path(path).resolve()", "Path(path).absolute()"),
    Guard("a lock whose file was deleted is none", "process_lock.py", "            if self._is_current(self._file):\n", "            if True:\n"),
    Guard("no lanes but those asked for", "lanes.py", "    if queues is None:\n        return ALL\n", "    return ALL\n"),
    Guard("standing: paused", "explain.py", "is_paused=bool(is_paused)", "is_paused=False"),
    Guard("standing: nothing is ahead of what is not due", "explain.py", "is_due = job.state is State.QUEUED and to_microseconds(job.run_at) <= now", "is_due = True"),
    Guard("standing: priority", "explain.sql", "job.priority > :priority", "job.priority > :priority + 9"),
    Guard("standing: run_at order", "explain.sql", "    and job.run_at < :run_at\n", "    and false\n"),
    Guard("standing: enqueue order", "explain.sql", " and job.sequence < :sequence", ""),
    Guard("standing: the order of what came due", "explain.sql", "  where (-priority, run_at, sequence) < (-:priority, :run_at, :sequence)\n", ""),
    Guard("standing: what came due is ahead", "explain.sql", "  from came_due\n", "  from (select 0 as priority, 0 as run_at, 0 as sequence limit 0)\n"),
    Guard("standing: what is not due is not ahead", "explain.sql", " and job.run_at <= :now\n  limit", "\n  limit"),
    Guard("standing: types given", "explain.sql", "    lane.due > 0\n    and (:types is null or lane.type in (select value from json_each(:types)))\n", "    lane.due > 0\n"),
    Guard("standing: types given, of what came due", "explain.sql", "    lane.scheduled > 0\n    and (:types is null or lane.type in (select value from json_each(:types)))\n", "    lane.scheduled > 0\n"),
    Guard("standing: a paused queue is not ahead", "explain.sql", "    lane.due > 0\n    and (:types is null or lane.type in (select value from json_each(:types)))\n    and lane.queue not in (select queue from tenure_paused)\n", "    lane.due > 0\n    and (:types is null or lane.type in (select value from json_each(:types)))\n"),
    Guard("standing: a paused queue is not ahead, of what came due", "explain.sql", "    lane.scheduled > 0\n    and (:types is null or lane.type in (select value from json_each(:types)))\n    and lane.queue not in (select queue from tenure_paused)\n", "    lane.scheduled > 0\n    and (:types is null or lane.type in (select value from json_each(:types)))\n"),
    Guard("standing: a bounded number", "explain.sql", "  limit :most\n", ""),
    Guard("standing: a silent holder is remembered", "explain.py", "now - duration(SILENT_WORKER_TTL)", "now"),
    Guard("standing: a holder only while it runs", "explain.py", "_read_worker(db, job.worker, now) if job.state is State.RUNNING else None", "_read_worker(db, job.worker, now)"),
    Guard("running jobs are found among few", "find.sql", "from tenure_jobs indexed by tenure_leases\n", "from tenure_jobs\n"),
]  # fmt: skip

CLIENT_GUARDS = [
    Guard("no completion without its effect", "client/claim.py", "        if was_joined and error is None:\n", "        if False:\n"),
    Guard("what undid a transaction is recorded", "client/transaction.py", "return error is not None and self._claim.settle_on_exit(error)", "return False"),
    Guard("a completion that was undone can be tried again", "client/claim.py", "            self._reopen()\n            self.lease.is_over = ", "            self.lease.is_over = "),
    Guard("an ending that waits keeps no operation waiting", "client/aio/claims.py", "return ONE_SHOT_RUNNER if facade is None else facade.threads.endings\n", "return ONE_SHOT_RUNNER if facade is None else facade.threads\n"),
    Guard("a locked job delays no other ending", "client/aio/ending_executor.py", "        waiting.before = make_room\n", ""),
    Guard("an ending that waits is told apart", "client/settling.py", "            waiting.before()\n", "            pass\n"),
    Guard("endings share a few threads", "client/aio/ending_executor.py", "if self._queued and self._running < ENDING_THREADS:", "if self._queued:"),
    Guard("a place is given up once", "client/aio/ending_executor.py", "            if is_counted:\n                is_counted", "            if True:\n                is_counted"),
    Guard("a close waits for queued endings", "client/aio/ending_executor.py", "            self._changed.wait_for(lambda: not self._running)\n", "            pass\n"),
    Guard("a close waits for endings", "client/aio/threads.py", "        self._endings.shutdown()\n", ""),
    Guard("a claim that was cut goes on", "client/source.py", "while claimed.is_cut and not claimed.jobs and ", "while False and "),
    Guard("a claim does not go on for ever", "client/source.py", " and ticks() < started_at + BUSY_TIMEOUT:", ":"),
    Guard("a lease counts from before the last try", "client/source.py", "            sent_at = ticks()\n            claimed = ", "            claimed = "),
    Guard("a lease counts from before the claim", "client/source.py", "        started_at = sent_at = ticks()\n        claimed = backend.claim(request)\n", "        claimed = backend.claim(request)\n        started_at = sent_at = ticks()\n"),
    Guard("an extension counts from before it", "client/settling.py", "    return sent_at, status\n", "    return ticks(), status\n"),
    Guard("a kept lease counts from before its beat", "client/keeper.py", "lease.record_extension(status, sent_at, lease.length)\n                if", "lease.record_extension(status, self._ticks(), lease.length)\n                if"),
    Guard("a margin for drift", "client/keeper.py", "length * (1 - CLOCK_DRIFT_MARGIN)", "length"),
    Guard("a longer lease is not shortened here", "client/keeper.py", "max(self.valid_until, _deadline(sent_at, length))", "_deadline(sent_at, length)"),
    Guard("a deadline that passed is a loss", "client/keeper.py", "self.is_over or self._ticks() >= self.valid_until", "self.is_over"),
    Guard("a refusal is a loss", "client/keeper.py", "            self.is_over = True\n            return\n", "            return\n"),
    Guard("an ended claim has lost nothing", "client/keeper.py", "            if self._kept.pop(id(lease), None) is None:\n                return\n", "            self._kept.pop(id(lease), None)\n"),
    Guard("an ended claim is kept no more", "client/claim.py", "        self._holder.keeper.end(self.lease)\n\n    def settlement_for_error", "\n    def settlement_for_error"),
    Guard("a left block keeps no more", "client/keeper.py", "                if lease.keep_count <= 0:\n                    self._kept.pop(id(lease), None)\n", ""),
    Guard("a revived claim is kept again", "client/keeper.py", "            if lease.keep_count > 0 and not lease.is_lost and not self._is_stopped:\n                self._keep(lease)\n                self._ensure_thread()\n", ""),
    Guard("a claim is lost once", "client/keeper.py", " and not lease.is_lost and not self._is_stopped:", " and not self._is_stopped:"),
    Guard("a closed keeper keeps nothing", "client/keeper.py", "            if self._is_stopped:\n                raise", "            if False:\n                raise"),
    Guard("an ending lands once", "client/claim.py", '            raise self.lost_error(f"the job is already {self._outcome}")\n        if not', "            pass\n        if not"),
    Guard("a lost claim cannot be entered", "client/claim.py", "        if self.is_lost:\n            raise", "        if False:\n            raise"),
    Guard("an interruption releases", "client/claim.py", "if isinstance(error, Exception) else", "if True else"),
    Guard("an unanswered ending is sent again", "client/claim.py", "self.settle(self.unconfirmed or self.settlement_for_error(error))", "self.settle(self.settlement_for_error(error))"),
    Guard("an unanswered ending is sent again by the claims", "client/claims.py", "claim.unconfirmed or claim.settlement_for_error(", "claim.settlement_for_error("),
    Guard("a neighbour is not blamed", "client/claims.py", "error if claim is blamed else None", "error"),
    Guard("another's loss is not mine", "client/claim.py", " and (error.id, error.fence) == (self.id, self.fence)", ""),
    Guard("a fork holds nothing (claim)", "client/claim.py", "        if not self.is_in_this_process():\n            return False\n", ""),
    Guard("a fork holds nothing (claims)", "client/claims.py", "        if not all(claim.is_in_this_process() for claim in self._all):\n            return\n", ""),
    Guard("a fork keeps nothing", "client/keeper.py", "        if self._process != os.getpid():\n            self._reset()\n", ""),
    Guard("each look has its own token", "client/source.py", "        request = replace(request, token=new_token())\n", ""),
    Guard("a waiting claim looks again", "client/source.py", "min(left, LONGEST_POLL)", "left"),
    Guard("a waiting claim wants its types", "client/source.py", "backend.wait(request.queues, request.types, ", "backend.wait(request.queues, None, "),
    Guard("what is claimed after close is given back", "client/source.py", "if self._is_closed and holds:", "if False:"),
    Guard("moving all jobs must be said", "client/source.py", " != 1:\n            raise", " > 1:\n            raise"),
    Guard("what is ahead is what its workers take", "client/jobs.py", "*claim_filters_for(job, workers)", "None, None"),
    Guard("closing closes the store", "client/source.py", "            backend.close()\n", ""),
    Guard("a close waits for what is under way", "client/source.py", "            threads.finish()\n", "            pass\n"),
    Guard("a close sees the last threads end", "client/source.py", "            threads.join()\n", "            pass\n"),
    Guard("a cancelled claim is given back", "client/aio/pending_claim.py", "            self.release_claims()\n\n    def _wake", "            pass\n\n    def _wake"),
    Guard("a claim cancelled after its answer is given back", "client/aio/threads.py", "                    self._operations.submit(pending.release_claims)\n", "                    pass\n"),
    Guard("a claim that was left does not ask", "client/aio/pending_claim.py", "            if not self.is_waiting:\n                return True\n", "            if self._has_response:\n                return True\n"),
    Guard("a loop that is gone gets nothing", "client/aio/pending_claim.py", "            self._is_abandoned = True\n\n    def _set_ready", "            pass\n\n    def _set_ready"),
    Guard("what was not returned before the close is given back", "client/aio/pending_claim.py", "        self._wake()\n        self.release_claims()\n", "        self._wake()\n"),
    Guard("a close ends those who wait", "client/aio/threads.py", "            pending.close()\n", "            pass\n"),
    Guard("what cannot be given back is told, not raised", "client/aio/pending_claim.py", "        except Exception as exc:  # noqa: BLE001 - the caller is gone\n            log.warning(", "        except Exception as exc:  # noqa: BLE001 - the caller is gone\n            log.debug("),
    Guard("a cancelled call is finished first", "client/aio/threads.py", "        except asyncio.CancelledError as exc:\n            cancelled = exc\n            if", "        except asyncio.CancelledError as exc:\n            raise\n            if"),
    Guard("a cancel is not lost", "client/aio/threads.py", "    if cancelled is not None:\n        raise cancelled from future.exception()\n", ""),
    Guard("waits take no thread of an operation", "client/aio/threads.py", 'ThreadPoolExecutor(WAITER_THREADS, "tenure-waiter")', "self._operations"),
    Guard("waits take turns", "client/aio/threads.py", "LONGEST_POLL * share", "LONGEST_POLL * 60"),
    Guard("the first in line is served first", "client/aio/threads.py", "            for pending in pending_claims:\n                if not pending.poll():", "            for pending in reversed(pending_claims):\n                if not pending.poll():"),
    Guard("those who left are forgotten", "client/aio/threads.py", "self._waiting_claims.pop(selection) if pending.is_waiting]", "self._waiting_claims.pop(selection)]"),
    Guard("a claim whose time is up looks once more", "client/aio/threads.py", "                self._submit(pending.poll)\n", "                pending.fail(StoreUnavailable(self._closed_message))\n"),
    Guard("a claim whose time is up does not wait on", "client/aio/threads.py", "            left = ends_at - ticks()\n            self._submit(self._start, pending, selection)\n", "            self._submit(self._start, pending, selection)\n            left = ends_at - ticks()\n"),
    Guard("those who wait are told of trouble", "client/aio/threads.py", "            pending.fail(error)\n", "            pass\n"),
    Guard("a context reaches its thread", "client/aio/threads.py", "executor.submit(copy_context().run, function)", "executor.submit(function)"),
    Guard("a context reaches the claim's thread", "client/aio/pending_claim.py", "partial(copy_context().run, claim_once)", "claim_once"),
    Guard("a fork has threads of its own", "client/aio/source.py", "process = os.getpid()", "process = 0"),
    Guard("a twin blames whom the loop is at", "client/aio/claims.py", "            self.sync._current = claim.sync\n", "            pass\n"),
    Guard("a generator is read in the caller's thread", "client/aio/awaited.py", "return list(value) if isinstance(value, Iterator) else value", "return value"),
    Guard("a blocked lease is not extended here", "client/keeper.py", "return self.status in BLOCKED", "return False"),
    Guard("a blocked lease is not over", "client/keeper.py", "            self.due_at = sent_at + self.length * RETRY_FRACTION\n            return\n", "            self.is_over = True\n            return\n"),
    Guard("a blocked lease is tried again soon", "client/keeper.py", "            self.due_at = sent_at + self.length * RETRY_FRACTION\n            return\n", "            self.due_at = sent_at + self.length / 3\n            return\n"),
    Guard("progress of a locked job is kept", "client/keeper.py", "if lease.progress is extension.progress and status is not HoldStatus.BUSY:", "if lease.progress is extension.progress:"),
    Guard("progress of a blocked lease is not sent without pause", "client/keeper.py", "if lease.progress is not None and not lease.is_blocked:", "if lease.progress is not None:"),
    Guard("a blocked lease is told", "client/keeper.py", "            self._warn_if_blocked_long(lease)\n            if", "            if"),
    Guard("a blocked lease is told once", "client/keeper.py", " or lease.is_warning_logged", ""),
    Guard("a blocked lease is told after half of it", "client/keeper.py", " or now < warns_at", ""),
    Guard("a blocked lease is told again after an extension", "client/keeper.py", "        self.is_warning_logged = False\n        self.cancel", "        self.cancel"),
    Guard("a blocked lease that its holder extends is told", "client/keeper.py", "        self._warn_if_blocked_long(lease)\n\n    def stop", "\n    def stop"),
    Guard("an ended claim is not told as blocked", "client/keeper.py", " and id(lease) in self._kept", ""),
    Guard("a blocked lease is not tried with its neighbours", "client/keeper.py", "(RETRY_FRACTION / 2 if self.is_blocked else 1 / 6)", "(1 / 6)"),
    Guard("progress does not hasten a retry", "client/keeper.py", "            if lease.was_extended:\n", "            if True:\n"),
    Guard("progress does not hasten the retry of a failed request", "client/keeper.py", "                    lease.status = None\n", ""),
    Guard("a blocked lease that is lost tells why", "client/keeper.py", "time{why}", "time"),
    Guard("an integer that others cannot read is refused", "core/payload.py", "        elif may_have_long_integers and isinstance(part, int) and abs(part) >= _FIRST_LONG_INTEGER:\n", "        elif False:\n"),
    Guard("an unreadable part of a response costs the rest nothing", "core/payload.py", "    if value is not text or not levels or ", "    if True or "),
    Guard("a list is split no deeper than the payloads", "core/payload.py", "value is not text or not levels or not", "value is not text or not"),
    Guard("a settlement of a locked job is sent again", "client/settling.py", "    while BUSY in settled and next(pauses, False):\n", "    while False:\n"),
    Guard("a failed retry keeps the known results of settlements", "client/settling.py", "            if len(busy) == len(settlements):\n                raise\n", "            raise\n"),
    Guard("a failed retry without known results is an outage", "client/settling.py", "            if len(busy) == len(settlements):\n                raise\n", ""),
    Guard("an extension of a locked job is sent again", "client/settling.py", "    while status is HoldStatus.BUSY and next(pauses, False):\n", "    while False:\n"),
    Guard("a locked job is not waited for for ever", "client/settling.py", "    while ticks() < ends_at:\n", "    while True:\n"),
    Guard("an ending of a locked job is an outage", "client/claim.py", "error = StoreUnavailable if settled is BUSY else ConfigurationError", "error = ConfigurationError"),
    Guard("a claim of a locked job is not over", "client/claim.py", "            if not isinstance(settled, Unsettled) or not settled.may_retry:\n", "            if True:\n"),
    Guard("a rejected ending is an error", "client/claim.py", "            error = StoreUnavailable if settled is BUSY else ConfigurationError\n            raise error(unsettled_text(settlement, settled))\n", ""),
    Guard("a rejected ending is a failure", "client/claim.py", "elif isinstance(settled, Unsettled) and settled.is_failed:", "elif False:"),
    Guard("an extension of a locked job is an error", "client/claim.py", "if status is HoldStatus.BUSY and not leaves_to_keeper:", "if False:"),
    Guard("an extension inside a block is not left to the keeper", "client/claim.py", "*, leaves_to_keeper: bool = False)", "*, leaves_to_keeper: bool = True)"),
    Guard("progress inside a block of a locked job is no error", "client/claim.py", "if status is HoldStatus.BUSY and not leaves_to_keeper:", "if status is HoldStatus.BUSY:"),
    Guard("progress inside a block does not wait", "client/claim.py", "0.0 if leaves_to_keeper else BUSY_TIMEOUT", "BUSY_TIMEOUT"),
    Guard("progress of a locked job is sent later", "client/claim.py", "            keeper.report(self.lease, progress)\n", "            pass\n"),
    Guard("a rejected extension is an error", "client/claim.py", "        if status is HoldStatus.REJECTED:\n            raise", "        if False:\n            raise"),
    Guard("what a block could not settle is told", "client/claims.py", "            if isinstance(settled, Unsettled):\n                log", "            if False:\n                log"),
    Guard("progress that a table rejects does not cost the lease", "client/keeper.py", "if status is HoldStatus.REJECTED and extension.progress is not None:", "if False:"),
    Guard("reports that a table rejects do not cost the lease", "client/keeper.py", "None if lease.status is HoldStatus.REJECTED else lease.progress", "lease.progress"),
    Guard("progress that a table rejects is dropped", "client/keeper.py", "if lease.progress is extension.progress and status is not HoldStatus.BUSY:", "if lease.progress is extension.progress and not lease.is_blocked:"),
]  # fmt: skip


PARTS: dict[str, tuple[list[Guard], Path, list[str], str | None]] = {
    "memory": (GUARDS, MEMORY, MEMORY_TESTS, MEMORY_MACHINE),
    "sqlite": (SQLITE_GUARDS, SQLITE, SQLITE_TESTS, None),
    "postgres": (POSTGRES_GUARDS, POSTGRES, POSTGRES_TESTS, None),
    "redis": (REDIS_GUARDS, REDIS, REDIS_TESTS, None),
    "connections": (CONNECTION_GUARDS, CLIENT, CONNECTION_TESTS, None),
    "client": (CLIENT_GUARDS, CLIENT, CLIENT_TESTS, None),
    "worker": (WORKER_GUARDS, CLIENT, WORKER_TESTS, None),
    "service": (SERVICE_GUARDS, CLIENT, SERVICE_TESTS, None),
    "processes": (PROCESS_GUARDS, CLIENT, PROCESS_TESTS, None),
    "cli": (CLI_GUARDS, CLIENT, CLI_TESTS, None),
    "supervisor": (SUPERVISOR_GUARDS, CLIENT, SUPERVISOR_TESTS, None),
    "tables-client": (TABLE_CLIENT_GUARDS, CLIENT, TABLE_CLIENT_TESTS, None),
    "tables-sqlite": (TABLE_SQLITE_GUARDS, SQLITE_TABLES, SQLITE_TABLE_TESTS, None),
    "tables-postgres": (TABLE_POSTGRES_GUARDS, POSTGRES_TABLES, POSTGRES_TABLE_TESTS, None),
    "tables-migration": (TABLE_MIGRATION_GUARDS, POSTGRES_TABLES, MIGRATION_TESTS, None),
}


def main(names: list[str]) -> int:
    missed = number = 0
    for name in names or PARTS:
        guards, place, tests, machine = PARTS[name]
        print(f"[{name}]", flush=True)
        must_pass(tests)
        for guard in guards:
            number += 1
            missed += not report(guard, place, tests, machine)
    print(f"{number - missed} passed, {missed} failed")
    return 1 if missed else 0


def report(guard: Guard, place: Path, tests: list[str], machine: str | None) -> bool:
    """Print which test fails without the guard; return whether a test fails."""
    with tempfile.TemporaryDirectory(prefix="tenure-guard-") as folder:
        place_of_copy = Path(folder)
        copy_without(guard, place, place_of_copy)
        test = first_failing_test(place_of_copy, tests)
        is_seen = machine is not None and run(place_of_copy, "-c", machine).returncode != 0
    print(f"{guard.name:<52} {'machine' if is_seen else '':<8} {test or 'NO TEST FAILED'}", flush=True)
    return test is not None


def must_pass(tests: list[str]) -> None:
    """Exit if the tests fail with all guards in place: then a failure would prove nothing."""
    with tempfile.TemporaryDirectory(prefix="tenure-guard-") as folder:
        copy(Path(folder))
        if (test := first_failing_test(Path(folder), tests)) is not None:
            sys.exit(f"{test} fails with all guards in place; fix the test first")


def copy(folder: Path) -> None:
    for name in ("src", "tests", "docs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)


def copy_without(guard: Guard, place: Path, folder: Path) -> None:
    copy(folder)
    module = folder / place / guard.module
    before = module.read_text()
    if before.count(guard.text) != 1:
        sys.exit(
            f"guard {guard.name!r}: its text occurs {before.count(guard.text)} times in {guard.module}; fix the guard"
        )
    module.write_text(before.replace(guard.text, guard.instead))


def first_failing_test(folder: Path, tests: list[str]) -> str | None:
    try:
        ran = run(folder, *tests)
    except subprocess.TimeoutExpired:
        return f"the tests did not end within {LONGEST_RUN} s"
    if ran.returncode == 0:
        return None
    failures = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR ")) and "::" in line]
    return failures[0].split("::")[-1].split("[")[0] if failures else f"pytest ended with {ran.returncode}"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    places = f"{folder / 'src'}{os.pathsep}{folder}"
    # A separate temporary folder: concurrent test runs clean up the common folder.
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(folder)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_RUN
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
