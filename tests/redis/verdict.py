"""Check the keys of a store for consistency.

The expected contents of each key are derived from the rows.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.redis.contents import HASHES, LINES, SETS, Contents, Row, contents_of
from tests.redis.stores import Place
from tests.redis.witness import Witness

QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED = "01234"
STATES = {QUEUED: "queued", RUNNING: "running", COMPLETED: "completed", FAILED: "failed", CANCELLED: "cancelled"}
NULL = "null"

Rows = Mapping[str, Row]
Check = Callable[[Contents, Rows], Iterable[object]]
"""Returns the problems."""


def verdict(place: Place) -> dict[str, Any]:
    """Return the findings."""
    found = contents_of(place)
    rows = found.rows()
    endings = [json.loads(line) for line in found.hashes["history"].values()]
    return {
        "states": dict(Counter(STATES[row.state] for row in rows.values())),
        "happened": happened(found),
        "crashes": sum(int(row.crashes) for row in rows.values()),
        "endings that expired": sum(ending[0] == "expired" for ending in endings),
        "faults": {name: wrong for name, check in FAULTS.items() if (wrong := sorted(map(str, check(found, rows))))},
    }


def faults(place: Place) -> dict[str, list[str]]:
    """Return the problems of a store; empty if it is consistent."""
    wrong: dict[str, list[str]] = verdict(place)["faults"]
    return wrong


def effects(place: Place, witness: Witness) -> dict[str, Any]:
    """Check the logged effects of the scenes: for each job the effect of the last claim counts."""
    told = witness.told("did")
    last: dict[str, int] = {}
    for line in told:
        last[line.id] = max(line.fence, last.get(line.id, 0))
    fences = {id: int(row.fence) for id, row in contents_of(place).rows().items()}
    return {
        "effects": len(last),
        "writes": len(told),
        "of another claim than the one that completed": sum(fences.get(id) != fence for id, fence in last.items()),
    }


def happened(found: Contents) -> dict[str, int]:
    number = Counter[str]()
    for field, text in found.hashes["counts"].items():
        number[field.rpartition(",")[2]] += int(text)
    return dict(number)


def unknown_keys(found: Contents, _: Rows) -> Iterable[object]:
    return found.keys - {*HASHES, *LINES, *SETS}


def unpaired_jobs(found: Contents, rows: Rows) -> Iterable[object]:
    """Return ids without a row, a content or an entry in the catalogue."""
    by_sequence = {id: int(row.sequence) for id, row in rows.items()}
    return {*differing(found.lines["catalogue"], by_sequence), *(found.hashes["jobs"].keys() ^ rows.keys())}


def rows_of_other_jobs(found: Contents, rows: Rows) -> Iterable[object]:
    """Return ids whose content has another id, or another queue or type than the lane."""
    for id, content in found.hashes["jobs"].items():
        stored_id, type, queue, *_ = json.loads(f"[{content}]")
        if stored_id != id or [queue, type] != json.loads(f"[{found.hashes['lanes'][rows[id].lane]}]"):
            yield id


def repeated_sequences(found: Contents, rows: Rows) -> Iterable[object]:
    sequences = Counter(row.sequence for row in rows.values())
    last = 10**13 + int(found.hashes["store"].get("sequence", 0))
    return [each for each, number in sequences.items() if number > 1 or int(each) > last]


def half_cleared_claims(_: Contents, rows: Rows) -> Iterable[object]:
    """Return ids of jobs with only some of the fields of a claim, or with leftovers of a claim."""
    for id, row in rows.items():
        is_ended = row.state in (COMPLETED, FAILED, CANCELLED)
        expected = (row.state == RUNNING, *[row.state in (RUNNING, COMPLETED)] * 2, is_ended)
        if tuple(text != NULL for text in (row.leased_until, row.token, row.worker, row.finished_at)) != expected:
            yield id


def misplaced_among_queued(found: Contents, rows: Rows) -> Iterable[object]:
    """Return wrong entries of lanes, and ids of queued jobs that are not in exactly one lane."""
    due, scheduled = found.lines["due"], found.lines["scheduled"]
    places = {}
    for id, row in rows.items():
        if row.state == QUEUED:
            as_due = row.lane + row.rank + row.run_at + row.sequence + id
            as_scheduled = row.lane + row.run_at + row.sequence + row.rank + id
            places[id] = (as_due in due) + (as_scheduled in scheduled)
    queued = sum(places.values())
    yield from (id for id, number in places.items() if number != 1)
    if queued != len(due) + len(scheduled):
        yield f"{len(due) + len(scheduled) - queued} that are not queued"


def misplaced_among_running(found: Contents, rows: Rows) -> Iterable[object]:
    running = {id: row for id, row in rows.items() if row.state == RUNNING}
    leases = {row.sequence + id: int(row.leased_until) for id, row in running.items()}
    held = {f"{row.worker},{row.token}": 0 for row in running.values()}
    yield from differing(found.lines["leases"], leases)
    yield from differing(found.lines["held"], held)


def wrong_tokens(found: Contents, rows: Rows) -> Iterable[object]:
    """Return tokens without a held claim, and tokens with wrong jobs or counts."""
    tokens = found.hashes["tokens"]
    left = defaultdict[str, set[str]](set)
    workers = {}
    for id, row in rows.items():
        if row.state == RUNNING:
            left[row.token].add(id)
            workers[row.token] = row.worker
    yield from tokens.keys() ^ {*left, *(f"{token}#" for token in left)}
    for token, ids in left.items():
        worker, *taken = tokens.get(token, "").split("\n")
        if worker != workers[token] or not ids <= set(taken) or tokens.get(f"{token}#") != str(len(ids)):
            yield token


def misplaced_among_finished(found: Contents, rows: Rows) -> Iterable[object]:
    ended = {id: row for id, row in rows.items() if row.state in (COMPLETED, FAILED, CANCELLED)}
    finished = {row.lane + row.state + row.finished_at + row.sequence + id: 0 for id, row in ended.items()}
    stopped = {id: int(row.sequence) for id, row in ended.items() if row.state != COMPLETED}
    yield from differing(found.lines["finished"], finished)
    yield from differing(found.lines["stopped"], stopped)
    yield from (id for id in found.hashes["results"] if id not in ended or ended[id].state != COMPLETED)


def wrong_numbers(found: Contents, rows: Rows) -> Iterable[object]:
    counted = Counter(row.lane + row.state for row in rows.values() if row.state != QUEUED)
    kept = {field: int(text) for field, text in found.hashes["numbers"].items() if text != "0"}
    return differing(kept, dict(counted))


def wrong_keys(found: Contents, rows: Rows) -> Iterable[object]:
    """Return keys without a live job, keys of another job, and missing keys."""
    return differing(found.hashes["keys"], {field: id for id, field in live_keys(found, rows).items()})


def keys_of_two(found: Contents, rows: Rows) -> Iterable[object]:
    return [field for field, number in Counter(live_keys(found, rows).values()).items() if number > 1]


def live_keys(found: Contents, rows: Rows) -> dict[str, str]:
    """Return the queue and key of live jobs, by id."""
    queues = {lane: names.partition(",")[0] for lane, names in found.hashes["lanes"].items()}
    live = {id: row for id, row in rows.items() if row.key != NULL and row.state in (QUEUED, RUNNING)}
    return {id: f"{queues[row.lane]},{row.key}" for id, row in live.items()}


def wrong_history(found: Contents, rows: Rows) -> Iterable[object]:
    """Return endings without a job, missing endings, and endings of claims that never existed."""
    history = found.hashes["history"]
    fields = {f"{number}:{id}" for id, row in rows.items() for number in range(int(row.first_line), int(row.next_line))}
    yield from history.keys() ^ fields
    for field in history.keys() & fields:
        _, fence, *_ = json.loads(history[field])
        if fence > int(rows[field.partition(":")[2]].fence):
            yield field


def wrong_lanes(found: Contents, rows: Rows) -> Iterable[object]:
    """Return lanes without a reverse entry, lanes without jobs, and lanes that no claim would read."""
    lanes, used = found.hashes["lanes"], {row.lane for row in rows.values()}
    with_due = {member[:10] for member in found.lines["due"]}
    yield from (name for name, other in lanes.items() if lanes.get(other) != name)
    yield from {name for name in lanes if name[0] != '"'} ^ used
    yield from with_due - found.sets["open"]
    yield from (found.sets["open"] | found.lines["upcoming"].keys()) - used
    for member in found.lines["scheduled"]:
        if found.lines["upcoming"].get(member[:10], int(member[10:26]) + 1) > int(member[10:26]):
            yield member


def unpaired_minutes(found: Contents, _: Rows) -> Iterable[object]:
    return differing(found.lines["minutes"], dict.fromkeys(found.hashes["counts"], 0))


def unpaired_workers(found: Contents, _: Rows) -> Iterable[object]:
    shown = {name: int(text.partition(",")[0]) for name, text in found.hashes["workers"].items()}
    return differing(found.lines["shown"], shown)


def unpaired_waiters(found: Contents, _: Rows) -> Iterable[object]:
    waiting = found.hashes["waiting"]
    places = dict.fromkeys((place for text in waiting.values() for place in text.split("\n")), 0)
    yield from differing(found.lines["waiters"], places)
    yield from found.lines["waits"].keys() ^ waiting.keys()


def differing(found: Mapping[str, object], expected: Mapping[str, object]) -> set[str]:
    """Return the differences between two mappings."""
    return {name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)}


FAULTS: Mapping[str, Check] = {
    check.__name__.replace("_", " "): check
    for check in (
        unknown_keys,
        unpaired_jobs,
        rows_of_other_jobs,
        repeated_sequences,
        half_cleared_claims,
        misplaced_among_queued,
        misplaced_among_running,
        wrong_tokens,
        misplaced_among_finished,
        wrong_numbers,
        wrong_keys,
        keys_of_two,
        wrong_history,
        wrong_lanes,
        unpaired_minutes,
        unpaired_workers,
        unpaired_waiters,
    )
}
