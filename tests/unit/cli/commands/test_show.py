"""roboco show on a workspace in a folder, without servers."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from roboco.cli.commands.show import show
from roboco.domain.history.call_failure import CallFailure
from roboco.domain.paths import failure_path, history_path, summary_path, team_path
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts
from tests.unit.cli.live_items import STARTED_AT

TOOL = {"name": "refund", "function": "shop:refund", "effect": "pure"}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the workspace of a task whose tool has raised an exception."""
    monkeypatch.setenv("ROBOCO_WORKSPACE", (tmp_path / "workspace").as_uri())
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")

    def refund(args: object, context: object) -> object:
        raise ValueError("no such order")

    scripted = [says("", ("refund", {})), says("sorry")]
    world = World(world_parts(lambda request: scripted.pop(0), {"refund": refund}))
    world.submit(team_of(agents=[member("clerk", tools=["refund"])], tools=[TOOL]))
    world.settle()
    lines = b"".join(line + b"\n" for line in world.histories.lines(TASK))
    call = world.history()[1].calls[0]
    frames = ('File "shop.py", line 7, in refund', '    raise ValueError("no such order")', "\x1b[31mred")
    failure = CallFailure(call_id=call.id, tool_name="refund", attempt=1, time=STARTED_AT, lines=frames)
    for path, data in {
        team_path(TASK): world.files.held[team_path(TASK)],
        summary_path(TASK): world.files.held[summary_path(TASK)],
        history_path(TASK): lines,
        failure_path(TASK, call.id): failure.model_dump_json().encode(),
        failure_path(TASK, "torn"): b'{"call_id": "to',
    }.items():
        file = tmp_path / "workspace" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tmp_path / "workspace"


def test_last_frames_of_an_exception_are_shown_below_the_result(workspace: Path) -> None:
    shown = CliRunner().invoke(show, [TASK], catch_exceptions=False).output.splitlines()
    [at] = [number for number, line in enumerate(shown) if "ValueError: no such order" in line and "←" in line]
    assert shown[at + 1 : at + 4] == [
        '       File "shop.py", line 7, in refund',
        '           raise ValueError("no such order")',
        "       red",
    ]


def test_exceptions_of_tools_are_part_of_the_json(workspace: Path) -> None:
    record = json.loads(CliRunner().invoke(show, [TASK, "--json"], catch_exceptions=False).output)
    [failure] = record["failures"]
    assert failure["tool_name"] == "refund"
    assert failure["lines"][0] == 'File "shop.py", line 7, in refund'
