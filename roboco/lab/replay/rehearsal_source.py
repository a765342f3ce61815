"""The source of a test that rehearses a recorded task: valid Python for any text in the task."""

from pprint import pformat
from typing import Any, Final

from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.lab.replay.recording import Recording
from roboco.lab.replay.rehearsal import Rehearsal

LINE_WIDTH: Final = 116

_TEST_TEMPLATE = """{about}

{imports}

{team}

RECORDING = {recording}


class RehearsalTest(unittest.TestCase):
    maxDiff = None

    def test_{name}(self):
        rehearsal = rehearse(TEAM, RECORDING{router})
        self.assertEqual(rehearsal.agents, {agents})
        self.assertEqual(rehearsal.tools, {tools})
        self.assertEqual(rehearsal.status, {status}, rehearsal.reason)


if __name__ == "__main__":
    unittest.main()
"""

_DOCSTRING_TEMPLATE = '''"""The agents that acted in task {task_id} of team {team}, rehearsed with {which}.

The test replays the recorded answers and results.

Written by `roboco export-test`, for unittest and pytest. It calls no model, tool or server. If it fails, the team
chooses otherwise: then read `rehearsal.rules`, the rules by which the agents acted.

This file holds the texts of the task: messages, answers, arguments and results of tools. Read it before you share it.
"""'''


def render_test(task_id: str, team: Team, recording: Recording, expected: Rehearsal, team_file: str | None) -> str:
    """Return the test of this task. It contains the team, or reads `team_file` when it runs."""
    model = team.collaboration_model
    custom = model.router if isinstance(model, Custom) else None
    which = "the team below" if team_file is None else "the team's file"
    return _TEST_TEMPLATE.format(
        about=_DOCSTRING_TEMPLATE.format(task_id=task_id, team=team.name, which=which),
        imports="\n".join(_imports(custom, team_file)),
        team=f"TEAM = {_literal(_team_data(team))}" if team_file is None else f"TEAM = load_team({team_file})",
        recording=_recording_literal(recording),
        name=_test_name(task_id),
        router="" if custom is None else ", router",
        agents=_literal(expected.agents, 43),
        tools=_literal(expected.tools, 43),
        status=_literal(expected.status),
    )


def _team_data(team: Team) -> dict[str, Any]:
    return team.model_dump(mode="json", by_alias=True, exclude_none=True)


def _imports(custom: str | None, team_file: str | None) -> list[str]:
    lines = ["import unittest"]
    if team_file is not None:
        lines.append("from pathlib import Path")
    lines += ["", "from roboco import rehearse" if team_file is None else "from roboco import load_team, rehearse"]
    if custom is not None:
        module, _, function = custom.partition(":")
        lines += ["", f"from {module} import {function} as router"]
    return lines


def _recording_literal(recording: Recording) -> str:
    """Return the recording with a line for each turn, call and external input."""
    record = recording.model_dump(mode="json")
    lines = ["{"]
    for name, value in record.items():
        if isinstance(value, list) and value:
            lines += [f"    {name!r}: [", *(f"        {one!r}," for one in value), "    ],"]
        else:
            lines.append(f"    {name!r}: {value!r},")
    return "\n".join([*lines, "}"])


def _literal(value: Any, indent: int = 0) -> str:
    """Return the value as a Python literal; characters that are not printable are escaped."""
    return pformat(value, width=LINE_WIDTH - indent, sort_dicts=False)


def _test_name(task_id: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in task_id)
