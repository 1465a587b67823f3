"""What a claim of one job depends on."""

from collections.abc import Sequence

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import duration, moment, optional_array
from tenure.backends.postgres.pipeline import Step
from tenure.backends.postgres.rows import job_of, worker_of
from tenure.backends.protocol import SCAN
from tenure.core.operations import EVIDENCE_KEPT, MOST_AHEAD, Standing


def standing(database: Database, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
    values = {
        "id": id,
        "queues": optional_array(queues),
        "types": optional_array(types),
        "scan": SCAN,
        "most": MOST_AHEAD,
        "evidence_kept": duration(EVIDENCE_KEPT),
        "now": database.now(),
    }
    (found,) = database.ask([Step(database.asking(queues, types)["standing"]["standing"], values)])
    if found is None:
        return None
    now, row, is_paused, ahead, holder = found
    return Standing(
        now=moment(now),
        job=job_of(row),
        is_paused=is_paused,
        ahead=ahead,
        holder=None if holder is None else worker_of(holder),
    )
