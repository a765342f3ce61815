"""roboco export-test: a recorded task as a test of its team."""

import os
from pathlib import Path
from pprint import pformat
from typing import Any, Final

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import escape_invisible
from roboco.client.orchestrator import Orchestrator
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.recorded.recording import Recording
from roboco.domain.recorded.rehearsal import Rehearsal, rehearse
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.errors import UsageError
from roboco.lab.replay.recording import recording_of
from roboco.lab.replay.stored_record import router_of, stored_record
from roboco.settings import load_settings
from roboco.team_files.file import load_team

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


@click.command("export-test")
@click.argument("task_id")
@click.option("--team", metavar="FILE", type=click.Path(path_type=Path), help="The team file that the test reads.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Where to write the test.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@options.as_json
def export_test(task_id: str, team: Path | None, output: Path | None, force: bool, as_json: bool) -> None:
    """Print a test file that replays a task.

    The test replays the task's recorded answers and results and needs no server. It runs under unittest and pytest.
    It fails if the team would have other agents act, call other tools, or end otherwise. The test contains the team;
    with --team it reads that file whenever it runs, and so notices later changes.

    FILE is relative to the folder of the test, or, without -o, to the folder in which the test runs.
    """
    if output is not None and output.exists() and not force:
        raise UsageError(f"file {str(output)!r} exists already; choose another one, or overwrite it with --force")
    with Orchestrator(load_settings()) as orchestrator:
        text, failure = _render(orchestrator, task_id, team, output)
    if output is not None:
        _write(output, text)
    if as_json:
        file = None if output is None else str(output)
        print_json({"task_id": task_id, "file": file, "source": text, "passes": not failure, "failure": failure})
        return
    if output is None:
        click.echo(text.encode(), nl=False)
    else:
        click.echo(f"written to {output}; run it with: pytest {output} (or python -m unittest {output})", err=True)
    if failure:
        click.echo(f"the test fails now: {failure}", err=True)


def _render(orchestrator: Orchestrator, task_id: str, team: Path | None, output: Path | None) -> tuple[str, str]:
    """Return the source of the test, and why it fails now, or "" if it passes."""
    past = stored_record(orchestrator, task_id)
    recording = recording_of(past)
    expected = rehearse(past.team, recording, past.router)
    _check_reproducible(past, expected)
    chosen = past.team if team is None else load_team(team)
    now = expected if team is None else rehearse(chosen, recording, router_of(orchestrator, chosen))
    text = render_test(task_id, chosen, recording, expected, _team_path(team, output))
    if (now.agents, now.tools, now.status) == (expected.agents, expected.tools, expected.status):
        return text, ""
    agents = ", ".join(now.agents) or "no agent"
    return text, f"with {team} {agents} would act, and then it would be {now.status}: {escape_invisible(now.reason)}"


def _check_reproducible(past: RecordedTask, expected: Rehearsal) -> None:
    """Raise UsageError if the rehearsal differs from the record, for example because a router has changed."""
    recorded = [step.agent_name for step in past.steps]
    rehearsed = [step.agent_name for step in expected.steps]
    if rehearsed != recorded:
        place = next((seq for seq, pair in enumerate(zip(recorded, rehearsed, strict=False)) if pair[0] != pair[1]), -1)
        at = place if place >= 0 else min(len(recorded), len(rehearsed))
        raise UsageError(
            f"the task cannot be rehearsed: at step {at} its team chooses otherwise than was recorded "
            f"({expected.reason}); see roboco replay"
        )


def _team_path(team: Path | None, output: Path | None) -> str | None:
    """Return the expression by which the test finds the team file, or None if the test contains the team."""
    if team is None:
        return None
    if output is None:
        return f"Path({str(team)!r})"
    relative = os.path.relpath(team.absolute(), output.absolute().parent)
    return f"Path(__file__).parent / {relative!r}"


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"file {str(output)!r} cannot be written: {error.strerror}") from error


def render_test(task_id: str, team: Team, recording: Recording, expected: Rehearsal, team_file: str | None) -> str:
    """Return the test of this task. It contains the team, or reads `team_file` when it runs."""
    model = team.collaboration_model
    custom = model.router if isinstance(model, Custom) else None
    data = team.model_dump(mode="json", by_alias=True, exclude_none=True)
    which = "the team below" if team_file is None else "the team's file"
    return _TEST_TEMPLATE.format(
        about=_DOCSTRING_TEMPLATE.format(task_id=task_id, team=team.name, which=which),
        imports="\n".join(_imports(custom, team_file)),
        team=f"TEAM = {_literal(data)}" if team_file is None else f"TEAM = load_team({team_file})",
        recording=_recording_literal(recording),
        name=_test_name(task_id),
        router="" if custom is None else ", router",
        agents=_literal(expected.agents, 43),
        tools=_literal(expected.tools, 43),
        status=_literal(expected.status),
    )


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
