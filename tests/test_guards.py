"""The source text of every guard in `./dev prove guards` exists."""

import pytest

from tests.prove.guard import Guard
from tests.prove.guards import PARTS, ROOT


@pytest.mark.parametrize("part", PARTS)
def test_the_text_of_every_guard_stands_once(part: str) -> None:
    guards, place, _, _ = PARTS[part]

    def is_there(guard: Guard) -> bool:
        return (ROOT / place / guard.module).read_text("utf-8").count(guard.text) == 1

    assert [guard.name for guard in guards if not is_there(guard)] == []
    assert len({guard.name for guard in guards}) == len(guards)
