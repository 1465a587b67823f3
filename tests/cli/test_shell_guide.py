"""The commands in the shell guide work."""

import re
from pathlib import Path

from tests.cli.terminal import Terminal
from tests.tiers import only_in_all, starts_processes

pytestmark = starts_processes

GUIDE = Path(__file__).parents[2] / "docs" / "shell.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@only_in_all
def test_every_block_of_the_guide_does_what_it_says(terminal: Terminal) -> None:
    """Slow: every command of the guide is a process."""
    with terminal.jobs() as jobs:
        for number, block in enumerate(BLOCKS):
            jobs.enqueue("work", {"n": number})

            ran = terminal.run_script(f"set -e\n{block}")

            assert (number, ran.code, ran.err) == (number, 0, "")
        assert len(BLOCKS) == 5
        assert jobs.stats().total("running") == 0
        assert {"n": 3} in [job.result for job in jobs.find(state="completed")]
