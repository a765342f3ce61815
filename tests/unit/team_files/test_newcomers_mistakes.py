"""The mistakes that newcomers make in a team file and its tools: each message says what to write instead."""

from pathlib import Path

import pytest

from roboco.cli.doctor.teams import missing_functions
from roboco.errors import InvalidTeam
from roboco.settings import Settings
from roboco.team_files.file import load_team, parse_team

TEAM = """name: desk
models: {m: {model: gpt-4o-mini, default: true}}
agents:
  - {name: writer, prompt: "Write about {{ task.prompt }}"}
  - {name: critic, prompt: Review it}
"""
CRITIC = "{name: critic, prompt: Review it}"
GRAPH = "collaboration_model: {type: graph, initial_agent: writer, routing_graph: {writer: [critic]}}"
MODULES = {
    "hintless": "from roboco import tool\n@tool\ndef bad(a): ...\n@tool\ndef good(a: int) -> int:\n    'Double.'\n",
    "broken": "from roboco import tool\n\n@tool\ndef bad(a: int\n",
    "plain": "def good(a: int): ...\n",
}
"""Modules of tools."""


def team(old: str, new: str) -> str:
    assert old in TEAM
    return TEAM.replace(old, new)


def mistakes_in(folder: Path, text: str) -> list[str]:
    """Return the mistakes in a team file with this text."""
    file = folder / "team.yaml"
    file.write_text(text)
    with pytest.raises(InvalidTeam) as raised:
        load_team(file)
    return list(raised.value.mistakes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file: must hold 'name' and 'agents' (it is empty); roboco init writes a team"),
        (
            team(f"- {CRITIC}", "- name: critic\n    prompt: {{ task.prompt }}"),
            'line 6, "prompt: {{ task.prompt }}": quote a text that begins with {{',
        ),
        (
            team(f"- {CRITIC}", "- name: critic\n    prompt: Review: it"),
            'line 6, "prompt: Review: it": quote a text that contains ": "',
        ),
        (team(f"- {CRITIC}", "- name: critic\n    prompt: @it"), "quote a text that begins with @"),
        (
            team(f"- {CRITIC}", "- name: critic\n     prompt: hi"),
            'line 6, "prompt: hi": indent this line as the entries before it',
        ),
        (team("  - {name: critic", "\t- {name: critic"), "indent with spaces, not with a tab"),
        (team("Review it}", "Review it"), f'line 5, "- {CRITIC[:-1]}": the {{ that opens here is not closed'),
        (team("prompt: Review it", 'prompt: "Review it'), 'the " that opens here is not closed'),
        (f"{TEAM}name: other\n", "line 6, \"name: other\": 'name' is there twice"),
        (
            team("{{ task.prompt }}", "{{ task.prompt "),
            "agents[0].prompt: line 1: is not a Jinja template: }} is missing",
        ),
        (team("{{ task.prompt }}", "{% if task.prompt %}x"), "%}, or the {% end... %} of a block, is missing"),
        (
            team("{{ task.prompt }}", "{{ task.promt }}"),
            "agents[0].prompt: unknown variable 'task.promt', possible are task.id, task.prompt",
        ),
        (
            team("critic, prompt", "critic, promt"),
            "agents[1].promt: no such field here (found 'Review it'); did you mean 'prompt'?",
        ),
        (team("models: {m:", "model: {m:"), "did you mean 'models'?"),
        (
            f"{TEAM}{GRAPH.replace('[critic]', '[{to: critic, when: {contain: OK}}]')}",
            "when.contain: no such field here (found 'OK'); did you mean 'contains'?",
        ),
        (f"{TEAM}{GRAPH.replace('graph,', 'grahp,')}", "'manual', 'graph', 'custom'; did you mean 'graph'?"),
        (
            f"{TEAM}collaboration_model: graph\n",
            "collaboration_model: write {type: graph}, or another type (found 'graph')",
        ),
        (
            "name: desk\nagents:\n  writer: {prompt: hi}\n",
            "agents: write a list: a dash before each agent, as in - {name: ..., prompt: ...}",
        ),
        ("name: desk\nagents: []\n", "agents: write at least 1 agent"),
        ("name: desk\nagents: [writer]\n", "agents[0]: write {name: ..., prompt: ...} (found 'writer')"),
        (team("name: writer", "name: the writer"), "agents[0].name: write letters, digits, _ and -, a letter first"),
        (
            team("name: critic", "name: yes"),
            "agents[1].name: write a text; quotes make one of yes, no, true and numbers (found True)",
        ),
        (team("name: critic", "name: writer"), "agents[1].name: 'writer' is there twice; names must differ"),
        (
            team("{m: {model: gpt-4o-mini, default: true}}", "gpt-4o-mini"),
            "models: write {standard: {model: ...}} (found 'gpt-4o-mini')",
        ),
        (
            team("{model: gpt-4o-mini, default: true}", "gpt-4o-mini"),
            "models.m: write {model: ...} (found 'gpt-4o-mini')",
        ),
    ],
)
def test_each_message_says_what_to_write(tmp_path: Path, text: str, expected: str) -> None:
    [mistake] = mistakes_in(tmp_path, text)[-1:]
    assert expected in mistake
    assert len(mistakes_in(tmp_path, text)) <= 2, "no mistake that follows from another one"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("hintless:bad", "tools[0].function: tool bad: parameter 'a' has no type hint"),
        ("broken:bad", "cannot be imported: '(' was never closed (broken.py, line 4): def bad(a: int"),
        ("plain:good", "function 'plain:good' is not marked with @tool"),
        ("hintless:good", ""),
    ],
)
def test_a_mistake_in_a_module_of_tools_is_named_and_takes_no_other_tool_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, expected: str
) -> None:
    for name, code in MODULES.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    found = parse_team(
        {
            "name": "desk",
            "agents": [{"name": "one", "prompt": "hi", "tools": ["t"]}],
            "tools": [{"name": "t", "function": function}],
        }
    )
    mistakes = list(missing_functions(found, Settings(tool_modules=tuple(MODULES))))
    assert [expected in mistake for mistake in mistakes] == [True] * bool(expected)


def test_of_many_unknown_fields_a_hundred_are_compared_with_names() -> None:
    data = {"name": "desk", "agents": [{"name": "one", "prompt": "hi"} | {f"promt{n}": 1 for n in range(2_000)}]}
    with pytest.raises(InvalidTeam) as raised:
        parse_team(data)
    assert sum("did you mean" in mistake for mistake in raised.value.mistakes) == 100
