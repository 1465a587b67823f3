"""The docs are consistent and match the code."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUARANTEES = (ROOT / "docs/guarantees.md").read_text()
README = (ROOT / "README.md").read_text()
SUITE = ROOT / "src/tenure/testing/conformance"


def words(text: str) -> str:
    return " ".join(text.replace("\n>", "\n").split())


def names_of_tests() -> set[str]:
    trees = [ast.parse(path.read_text()) for folder in (SUITE, ROOT / "tests") for path in folder.rglob("test_*.py")]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_guarantees_name_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", GUARANTEES))

    assert len(named) > 30
    assert named <= names_of_tests()


@pytest.mark.parametrize("number", range(1, 9))
def test_the_readme_and_the_guarantees_promise_the_same_in_the_same_words(number: int) -> None:
    heading, promise = re.findall(rf"## {number}\. (.+)\n\n((?:> .+\n)+)", GUARANTEES)[0]

    assert f"{number}. **{heading}.** {words(promise).removeprefix('> ')}" in words(README)


def test_every_dependency_has_its_reason() -> None:
    reasons = (ROOT / "docs/dependencies.md").read_text()
    listed = "".join(path.read_text() for path in (ROOT / "requirements").glob("*.in"))
    named = [line.partition(";")[0] for line in listed.splitlines() if re.match(r"[a-z]", line)]

    assert [name for name in named if f"| {name} |" not in reasons] == []
