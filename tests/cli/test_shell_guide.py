"""What the guide to the shell shows can be typed in."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure
from tests.cli.terminal import Terminal

GUIDE = Path(__file__).parents[2] / "docs" / "shell.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    shell = Terminal(tmp_path)
    yield shell
    shell.clear_away()


def test_every_block_of_the_guide_does_what_it_says(shell: Terminal) -> None:
    with shell.jobs() as jobs:
        for number, block in enumerate(BLOCKS):
            jobs.enqueue_many(tenure.NewJob("work", {"n": n}) for n in range(3))

            ran = shell.run_script(f"set -e\n{block}")

            assert (number, ran.code, ran.err) == (number, 0, "")
        assert len(BLOCKS) == 5
        assert jobs.stats().total("running") == 0
        assert {"n": 0} in [job.result for job in jobs.find(state="completed")]
