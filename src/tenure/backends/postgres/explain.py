"""Read the facts that decide when a job is claimed."""

from collections.abc import Sequence

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import microseconds, optional_array, parse_timestamp
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.rows import decode_job, decode_worker
from tenure.backends.protocol import SCAN
from tenure.core.operations import MAX_AHEAD_COUNTED, SILENT_WORKER_TTL, ClaimOutlook


def explain(
    database: Database, id: str, queues: Sequence[str] | None, types: Sequence[str] | None
) -> ClaimOutlook | None:
    values = {
        "id": id,
        "queues": optional_array(queues),
        "types": optional_array(types),
        "scan": SCAN,
        "most": MAX_AHEAD_COUNTED,
        "evidence_kept": microseconds(SILENT_WORKER_TTL),
        "now": database.now(),
    }
    (found,) = database.execute([BoundQuery(database.statements_for(queues, types)["explain"]["outlook"], values)])
    if found is None:
        return None
    now, row, is_paused, ahead, holder = found
    return ClaimOutlook(
        now=parse_timestamp(now),
        job=decode_job(row),
        is_paused=is_paused,
        ahead=ahead,
        holder=None if holder is None else decode_worker(holder),
    )
