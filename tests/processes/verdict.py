"""Compare the store with the lines that handlers wrote, after workers were restarted or killed."""

from collections import defaultdict
from typing import Any

import tenure
from tests.processes.grounds import Ground
from tests.processes.stage import Stage


def verdict_of_runs(stage: Stage, ground: Ground) -> dict[str, Any]:
    """Return the counts of the store and of the runs."""
    began: dict[str, list[int]] = defaultdict(list)
    for line in stage.told("began"):
        began[line.id].append(line.fence)
    with stage.jobs() as jobs:
        stored = list(jobs.find())
    return {
        **ground.verdict(),
        "attempts burnt": sum(job.attempts != 1 for job in stored),
        "never ran": sum(job.id not in began for job in stored),
        "ran more than once": sum(len(fences) > 1 for fences in began.values()),
        "ran again without a reason": [job.id for job in stored if not is_explained(job, began[job.id])],
    }


def is_explained(job: tenure.Job, fences: list[int]) -> bool:
    """Return whether the history shows an expired lease for every run except the run that completed the job."""
    expired = {ending.fence for ending in job.history if ending.outcome is tenure.Outcome.EXPIRED}
    return len(set(fences)) == len(fences) and set(fences) - expired == {job.fence}
