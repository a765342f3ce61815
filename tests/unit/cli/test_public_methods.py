"""The command line uses only public methods of the client library."""

import ast
from pathlib import Path

import pytest

import roboco.cli

SOURCES = sorted(Path(roboco.cli.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.stem)
def test_no_command_reads_a_private_attribute_of_another_object(file: Path) -> None:
    private = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert private == []
