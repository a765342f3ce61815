"""The commands, modules and settings that the documents and the project of `roboco init` name exist."""

import re
import tomllib

import click

from roboco.cli.main import commands
from roboco.gateway.settings import PREFIX as GATEWAY_PREFIX
from roboco.gateway.settings import GatewaySettings
from roboco.settings import Settings, variable_of
from tests.support.documents import GUIDES, PAGES
from tests.support.stack import ROOT

PROJECT = sorted(path for path in (ROOT / "roboco" / "examples" / "project").iterdir() if path.is_file())
TEXTS = [page.read_text(encoding="utf-8") for page in (*PAGES, *PROJECT)]
COMMAND_LINE = re.compile(r"`(roboco [^`]+)`|^(?:\w+=\S+ )*(roboco [^\n#]+)$", re.MULTILINE)
NAME = re.compile(r"[a-z][a-z-]*")
VARIABLE = re.compile(r"\bROBOCO_[A-Z0-9_]*[A-Z0-9]\b")
MODULE = re.compile(r"`(roboco/[\w/]*\w(?:\.py)?)`")
DOCUMENTED_COMMANDS = sorted(
    {" ".join((one or two).split()) for text in TEXTS for one, two in COMMAND_LINE.findall(text)}
)


def test_commands_exist_with_their_options() -> None:
    assert {line: problem for line in DOCUMENTED_COMMANDS if (problem := _problem(line))} == {}


def _problem(line: str) -> str:
    """Return the name in the command line that does not exist, or ""."""
    _, *words = line.split()
    command: click.Command = commands
    while isinstance(command, click.Group) and words and NAME.fullmatch(words[0]):
        group, name = command, words.pop(0)
        found = group.get_command(click.Context(group), name)
        if found is None:
            return f"{group.name} has no command {name!r}"
        command = found
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.partition("=")[0] for word in words if word.startswith("-")}
    return ", ".join(sorted(used - known - {"--help"}))


def test_documents_show_commands() -> None:
    assert len(DOCUMENTED_COMMANDS) > 30


def test_named_modules_exist() -> None:
    named = {name for text in TEXTS for name in MODULE.findall(text)}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_named_settings_exist() -> None:
    known = {variable_of(field) for field in Settings.model_fields} | {
        "ROBOCO_IMAGE",
        "ROBOCO_LOCAL_MODEL",
        "ROBOCO_ROOM",
    }
    known |= {f"{GATEWAY_PREFIX}{field.upper()}" for field in GatewaySettings.model_fields}
    named = {name for text in TEXTS for name in VARIABLE.findall(text)}
    assert sorted(named - known) == []


def test_the_index_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    _, table = (GUIDES / "index.md").read_text(encoding="utf-8").split("## Extras")
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == set(project["optional-dependencies"]) - {
        "dev",
        "peers",
    }
