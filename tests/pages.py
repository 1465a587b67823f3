"""The examples of a page build on each other, and may be run by several processes."""

import pytest
from sybil.integration.pytest import SybilItem

EVALUATED = pytest.StashKey[tuple[object, set[int]]]()
"""For a page: its folder, and where the examples begin that were evaluated in it."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Evaluate what stands before an example and was not evaluated here: pytest-xdist may split a page."""
    if not isinstance(item, SybilItem) or item.parent is None:
        return
    folder = item.example.namespace["_folder"]
    last, evaluated = item.parent.stash.get(EVALUATED, (None, set()))
    if last is not folder:
        evaluated = set()
        item.parent.stash[EVALUATED] = folder, evaluated
    for each in item.example.document.examples():
        if each.start < item.example.start and each.start not in evaluated:
            each.evaluate()
            evaluated.add(each.start)
    evaluated.add(item.example.start)
