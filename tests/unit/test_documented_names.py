"""Commands and modules that the documents name exist."""

import re

import click
import pytest

from roboco.cli.main import commands
from tests.support.documents import PAGES
from tests.support.stack import ROOT

TEXTS = [page.read_text(encoding="utf-8") for page in PAGES]
LINES = re.compile(r"`(roboco [^`]+)`|^(?:\w+=\S+ )*(roboco [^\n#]+)$", re.MULTILINE)
NAME = re.compile(r"[a-z][a-z-]*")
MODULE = re.compile(r"`(roboco/[\w/]*\w(?:\.py)?)`")
SHOWN = sorted({" ".join((one or two).split()) for text in TEXTS for one, two in LINES.findall(text)})


@pytest.mark.parametrize("line", SHOWN)
def test_command_exists_with_its_options(line: str) -> None:
    _, *words = line.split()
    command: click.Command = commands
    while isinstance(command, click.Group) and words and NAME.fullmatch(words[0]):
        group, name = command, words.pop(0)
        found = group.get_command(click.Context(group), name)
        assert found is not None, f"{group.name} has no command {name!r}"
        command = found
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known | {"--help"}


def test_documents_show_commands() -> None:
    assert len(SHOWN) > 30


def test_named_modules_exist() -> None:
    named = {name for text in TEXTS for name in MODULE.findall(text)}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
