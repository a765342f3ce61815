"""The commands why, replay and export-test on workspaces in a folder, without servers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from roboco import UsageError
from roboco.cli.commands.why import why
from roboco.domain.paths import history_path, lineage_path, summary_path, team_path
from roboco.domain.status import TaskStatus
from roboco.lab.replay.command import replay_task
from roboco.lab.replay.export_test import export_test
from tests.support.memory_ports.journeys import CUSTOM, GRAPH, SEQUENTIAL, TOOLS, Journey, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts
from tests.support.stack import ROOT
from tests.unit.domain.recorded_tasks import FORK, OTHER_TEAM, fork_task, run_journey, run_with_closed_calls
from tests.unit.engine.test_listings import listing, run_shop_task

ROUTERS = '''
def by_turns(team, history):
    """Each agent once, the last one first."""
    from roboco import Route

    names = [agent.name for agent in team.agents if agent.name not in history.state.turns]
    return Route(names[-1] if names else "END", "custom", "by turns", f"{len(names)} to go")
'''
HOSTILE_TEXT = (
    "quotes \" ' \"\"\" ''' \\ \\n {braces} %s \x1b[31m\x00\x7f\r\n\u2028\u202e Grüße 世界 \U0001f600 \\u0041"
)


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("ROBOCO_WORKSPACE", (tmp_path / "workspace").as_uri())
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.delenv("ROBOCO_TOOL_MODULES", raising=False)


def store_tasks(world: World, *task_ids: str) -> None:
    """Store the tasks in a folder, as a workspace does."""
    for task_id in task_ids or (TASK,):
        for path in (team_path(task_id), summary_path(task_id), lineage_path(task_id)):
            if (data := world.files.held.get(path)) is not None:
                _put(path, data)
        _put(history_path(task_id), b"".join(line + b"\n" for line in world.histories.lines(task_id)))


def _put(path: str, data: bytes) -> None:
    file = Path("workspace", path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def call(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def run_command(command: click.Command, *arguments: str, code: int = 0) -> str:
    """Return the stdout of the command, which must exit with this code."""
    result = call(command, *arguments)
    assert result.exception is None, result.exception
    assert (result.return_value or 0) == code, result.output
    return result.stdout


def test_why_shows_how_a_tool_has_changed() -> None:
    world, _ = run_shop_task(2, later=listing("Sell\u200b."))
    world.settle()
    store_tasks(world)
    for path in (name for name in world.files.held if "/mcp/" in name):
        _put(path, world.files.held[path])
    shown = run_command(why, TASK)
    assert '     was "Buy an article."' in shown
    assert r'     now "Sell\u200b."' in shown
    (change,) = json.loads(run_command(why, TASK, "--json"))["changes"]
    assert change["parts"] == [{"part": "description", "before": '"Buy an article."', "after": '"Sell\u200b."'}]


def run_pytest(*files: str) -> tuple[int, str]:
    """Run the exported tests with pytest. Return exit code and output."""
    return run_tests("pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", *files)


def run_tests(*arguments: str) -> tuple[int, str]:
    """Run the exported tests with nothing but Roboco installed. Return exit code and output."""
    command = [sys.executable, "-m", *arguments]
    env = {"PATH": "", "PYTHONPATH": f"{ROOT}:.", "ROBOCO_REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    return done.returncode, done.stdout + done.stderr


def write_team_file(name: str, **fields: Any) -> str:
    """Write a team file with the graph's agents, and return its name."""
    agents = [{"name": agent, "prompt": "x"} for agent in ("writer", "critic")]
    Path(name).write_text(json.dumps({"name": "desk", "agents": agents} | fields))
    return name


def graph(**edges: Any) -> dict[str, Any]:
    return {"type": "graph", "routing_graph": edges}


EXPORTED: dict[str, Journey] = {"custom": CUSTOM, "tools": TOOLS}


def install_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a package with the custom team's router, and allow its import."""
    Path("shop").mkdir()
    Path("shop/__init__.py").write_text("")
    Path("shop/routers.py").write_text(ROUTERS)
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("ROBOCO_TOOL_MODULES", "shop.routers")


def test_replay_of_a_stored_task_counts_the_same_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    install_router(monkeypatch)
    store_tasks(world := run_journey(CUSTOM))
    count = sum(not step.is_imported for step in world.history())
    assert f"{count} of {count} choices are the same" in run_command(replay_task, TASK).splitlines()[-1]
    record = json.loads(run_command(replay_task, TASK, "--json"))
    assert (record["same"], record["verdicts"], len(record["choices"])) == (True, {"same": count}, count)


def test_an_exported_test_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    install_router(monkeypatch)
    for name, journey in EXPORTED.items():
        store_tasks(run_journey(journey))
        assert call(export_test, TASK, "-o", f"test_{name}.py").exception is None
    store_tasks(run_hostile_task())
    assert call(export_test, TASK, "-o", "test_hostile.py").exception is None
    store_tasks(fork_task(run_journey(SEQUENTIAL), seq=2, team=OTHER_TEAM), FORK)
    assert call(export_test, FORK, "-o", "test_fork.py").exception is None
    store_tasks(run_with_closed_calls(lambda world: world.stop()))
    assert call(export_test, TASK, "-o", "test_closed.py").exception is None
    names = [f"test_{name}.py" for name in (*EXPORTED, "hostile", "fork", "closed")]
    code, output = run_pytest(*names)
    assert code == 0, output
    assert f"{len(names)} passed" in output
    code, output = run_tests("unittest", *names)
    assert code == 0, output
    assert f"Ran {len(names)} tests" in output


# --- why -------------------------------------------------------------------------------------------------------


def test_why_explains_each_turn() -> None:
    store_tasks(run_journey(GRAPH))
    lines = run_command(why, TASK).splitlines()
    assert lines[0] == "task task_1 · team desk"
    assert sum(line.startswith("── step ") for line in lines) == 6
    assert "   why      after writer always" not in lines
    assert "   rule     critic[1] -> writer, of the graph router" in lines
    assert lines[-1] == '── the task ended (completed): no agent is next: critic: contains "APPROVED"'
    one = run_command(why, TASK, "5")
    assert "step 5 · writer" in one
    assert "step 3" not in one
    record = json.loads(run_command(why, TASK, "5", "--json"))
    assert [step["seq"] for step in record["steps"]] == [5]
    assert record["steps"][0]["candidates"][1] == {"name": "critic[1] -> writer", "taken": True, "why": "taken"}


# --- replay ----------------------------------------------------------------------------------------------------


def test_replay_with_another_team_names_the_differences() -> None:
    store_tasks(run_journey(GRAPH))
    file = write_team_file("other.json", collaboration_model=graph(writer=["critic"], critic=["END"]))
    output = run_command(replay_task, TASK, "--team", file, code=1)
    assert "  step 3  differs: writer acts (graph: critic[1] -> writer)" in output
    assert "          chosen now: ends (completed): after critic always" in output
    assert output.splitlines()[-1] == "5 of 7 choices are the same; different: step 3, step 5"
    record = json.loads(run_command(replay_task, TASK, "--team", file, "--json", code=1))
    assert (record["same"], record["verdicts"]) == (False, {"same": 5, "differs": 2})


@pytest.mark.parametrize("command", [replay_task, export_test])
def test_a_router_is_imported_only_if_the_operator_allows_it(command: click.Command) -> None:
    store_tasks(run_journey(CUSTOM))
    error = call(command, TASK).exception
    assert isinstance(error, UsageError)
    assert "module 'shop.routers' is not in ROBOCO_TOOL_MODULES" in str(error)


# --- export-test ---------------------------------------------------------------------------------------------------


def run_hostile_task() -> World:
    """Run a task whose texts are difficult to write as Python source, and return its world."""
    deep: Any = "x"
    for _ in range(55):
        deep = [deep]
    team = team_of(
        agents=[member("first", tools=["add"])],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        description=HOSTILE_TEXT,
    )
    args = {"text": HOSTILE_TEXT, HOSTILE_TEXT: [1e300, -0.0, None, True], "": deep}

    def script(request: Any) -> Any:
        return says(HOSTILE_TEXT, ("add", args)) if len(request.messages) < 3 else says("half \ud83d of it")

    world = World(world_parts(script, {"add": lambda args, context: {HOSTILE_TEXT: [HOSTILE_TEXT, "\udc00", 10**30]}}))
    world.submit(team, HOSTILE_TEXT)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    return world


def test_an_existing_file_is_overwritten_only_with_force() -> None:
    store_tasks(run_journey(GRAPH))
    Path("test_mine.py").write_text("mine")
    error = call(export_test, TASK, "-o", "test_mine.py").exception
    assert isinstance(error, UsageError)
    assert "--force" in str(error)
    assert Path("test_mine.py").read_text() == "mine"
    assert call(export_test, TASK, "-o", "test_mine.py", "--force").exception is None
    assert "RECORDING" in Path("test_mine.py").read_text()
    assert isinstance(call(export_test, TASK, "-o", "nowhere/test_mine.py").exception, UsageError)


def test_export_with_a_changed_router_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install_router(monkeypatch)
    store_tasks(run_journey(CUSTOM))
    Path("shop/routers.py").write_text(ROUTERS.replace("names[-1]", "names[0]"))
    error = call(export_test, TASK).exception
    assert isinstance(error, UsageError)
    assert "at step 1 its team chooses otherwise than was recorded" in str(error)
