"""Run the examples of a page in order: later examples use names of earlier examples."""

import pytest
from sybil.integration.pytest import SybilItem

EVALUATED = pytest.StashKey[tuple[object, set[int]]]()
"""Per page: its folder, and the start positions of the evaluated examples."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Evaluate earlier examples of the page that another process has run: pytest-xdist may split a page."""
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
