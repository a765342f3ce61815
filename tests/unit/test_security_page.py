"""Each line of the tables of deploy/SECURITY.md names a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "deploy" / "SECURITY.md").read_text(encoding="utf-8")
LINES = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.endswith("| test |")]
NAMED = re.compile(r"`(tests/[a-z_/]+\.py)::(test_\w+)`")


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the test functions of a file, or none if there is no such file."""
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_each_line_names_a_test_that_exists() -> None:
    named = [(line, NAMED.findall(line.rpartition(" | ")[2])) for line in LINES]
    assert [line for line, tests in named if not tests] == []
    tests = {test for _, found in named for test in found}
    assert [(path, test) for path, test in sorted(tests) if test not in functions_of(path)] == []


def test_the_page_has_its_tables() -> None:
    assert len(LINES) > 50
    assert PAGE.count("| test |\n|---") == len(re.findall(r"^\|---", PAGE, re.MULTILINE)) == 12
    assert "## Undefended attacks" in PAGE
