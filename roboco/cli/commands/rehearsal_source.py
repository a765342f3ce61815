"""The source of a test that rehearses a recorded task: valid Python, whatever was said in it."""

from pprint import pformat
from typing import Any

from roboco.domain.replay.recording import Recording
from roboco.domain.replay.rehearsal import Rehearsal
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.engine.frozen_teams import team_as_data

_WIDE = 116

_WHOLE = """{about}

{imports}

{team}

RECORDING = {recording}


def test_{name}():
    rehearsal = rehearse(TEAM, RECORDING{router})
    assert rehearsal.agents == {agents}
    assert rehearsal.tools == {tools}
    assert rehearsal.status == {status}, rehearsal.reason
"""

_ABOUT = '''"""Who acted in task {task_id} of team {team}: its recorded answers and results, rehearsed with {which}.

Made by `roboco to-test`. No model, tool or server is asked. It fails if the team would choose otherwise: then look at
`rehearsal.rules`, which says by which rules the agents acted.

This file holds what was said in the task: messages, answers, arguments and results of tools. Look through it before you
share it.
"""'''


def source(task_id: str, team: Team, recording: Recording, expected: Rehearsal, team_file: str | None) -> str:
    """The test of this task; it holds the team, or reads `team_file` when it runs."""
    model = team.collaboration_model
    custom = model.router if isinstance(model, Custom) else None
    which = "the team that stands below" if team_file is None else "the team's file"
    return _WHOLE.format(
        about=_ABOUT.format(task_id=task_id, team=team.name, which=which),
        imports="\n".join(_imports(custom, team_file)),
        team=f"TEAM = {_literal(team_as_data(team))}" if team_file is None else f"TEAM = load_team({team_file})",
        recording=_recording(recording),
        name=_name(task_id),
        router="" if custom is None else ", router",
        agents=_literal(expected.agents, 24),
        tools=_literal(expected.tools, 24),
        status=_literal(expected.status),
    )


def _imports(custom: str | None, team_file: str | None) -> list[str]:
    lines: list[str] = []
    if team_file is not None:
        lines += ["from pathlib import Path", "", "from roboco import load_team"]
    lines.append("from roboco.domain.replay.rehearsal import rehearse")
    if custom is not None:
        module, _, function = custom.partition(":")
        lines += ["", f"from {module} import {function} as router"]
    return lines


def _recording(recording: Recording) -> str:
    """The recording with a line for each turn, call and arrival."""
    record = recording.model_dump(mode="json")
    lines = ["{"]
    for name, value in record.items():
        if isinstance(value, list) and value:
            lines += [f"    {name!r}: [", *(f"        {one!r}," for one in value), "    ],"]
        else:
            lines.append(f"    {name!r}: {value!r},")
    return "\n".join([*lines, "}"])


def _literal(value: Any, indent: int = 0) -> str:
    """The value in Python's own spelling: all that is not printable is escaped."""
    return pformat(value, width=_WIDE - indent, sort_dicts=False)


def _name(task_id: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in task_id)
