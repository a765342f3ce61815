"""The runbook: each entry has a symptom, a check, an action, and tests that exercise it with its commands."""

import ast
import re
from dataclasses import dataclass

import yaml

from tests.deployment.files import DEPLOY, ROOT

FIELDS = ("Symptom", "Check", "Action", "Exercise")
TEXT = (DEPLOY / "README.md").read_text(encoding="utf-8")
_, RUNBOOK = TEXT.split("\n## Runbook\n")
ENTRY = re.compile(r"^#### (\S+)\n\n((?:- \*\*.*\n(?:  .*\n)*)+)", re.MULTILINE)
FIELD = re.compile(r"^- \*\*(\w+)\*\*: (.*\n(?:  .*\n)*)", re.MULTILINE)
COMMAND = re.compile(r"`roboco ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")
EXERCISE = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ALERTS = [
    rule["alert"]
    for group in yaml.safe_load((DEPLOY / "monitoring" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]


@dataclass(frozen=True)
class Entry:
    """An entry of the runbook: its id, and its texts by field."""

    name: str
    fields: dict[str, str]

    @property
    def exercises(self) -> list[tuple[str, str]]:
        """The tests that exercise the entry: file and function."""
        return EXERCISE.findall(self.fields["Exercise"])

    @property
    def commands(self) -> set[str]:
        """The commands of its check and its action, without arguments: `dead-letters requeue`."""
        return set(COMMAND.findall(self.fields["Check"] + self.fields["Action"]))


ENTRIES = [Entry(name, dict(FIELD.findall(body))) for name, body in ENTRY.findall(RUNBOOK)]


def function(path: str, name: str) -> ast.FunctionDef:
    """Return the test of this name."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)


def command_lines(test: ast.FunctionDef) -> list[str]:
    """Return the text constants of a test from each of them on, in the order of its source: a command begins one."""
    constants = [node for node in ast.walk(test) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts = [str(node.value) for node in sorted(constants, key=lambda node: (node.lineno, node.col_offset))]
    return [" ".join(texts[place : place + 3]) + " " for place in range(len(texts))]


def test_every_heading_of_the_runbook_is_an_entry() -> None:
    assert [entry.name for entry in ENTRIES] == re.findall(r"^#### (.*)$", RUNBOOK, re.MULTILINE)
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES) > 20


def test_an_entry_is_complete_and_exercised() -> None:
    for entry in ENTRIES:
        assert tuple(entry.fields) == FIELDS, entry.name
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", entry.name), "the heading is the id: lower case and hyphens"
        assert entry.exercises, f"{entry.name}: name the tests that exercise the entry: `tests/FILE.py::test_NAME`"
        lines = [line for exercise in entry.exercises for line in command_lines(function(*exercise))]
        unexercised = [
            command
            for command in entry.commands
            if not any(line.startswith((command + " ", command + ":")) for line in lines)
        ]
        assert unexercised == [], f"{entry.name}: none of the exercises runs these commands"


def test_links_lead_to_entries_and_sections() -> None:
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", RUNBOOK)) <= headings


def test_the_runbook_names_every_alert() -> None:
    symptoms = " ".join(entry.fields["Symptom"] for entry in ENTRIES)
    assert [alert for alert in ALERTS if f"`{alert}`" not in symptoms] == []
