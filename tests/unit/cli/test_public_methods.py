"""The command line uses only public methods of the client library."""

import ast
from pathlib import Path

import roboco.cli

SOURCES = sorted(Path(roboco.cli.__file__).parent.rglob("*.py"))


def test_no_command_reads_a_private_attribute_of_another_object() -> None:
    private = [
        f"{file.name}:{node.lineno}: {ast.unparse(node)}"
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node) != "os._exit"
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert private == []
