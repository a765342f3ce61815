"""why, replay and export-test, on workspaces in a folder; no server runs."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from roboco import UsageError
from roboco.cli.commands.export_test import export_test
from roboco.cli.commands.rehearsal_source import render_test
from roboco.cli.commands.replay import replay_task
from roboco.cli.commands.why import why
from roboco.domain.paths import history_path, lineage_path, summary_path, team_path
from roboco.domain.replay.evidence import RecordedCall
from roboco.domain.replay.recording import recording_of
from roboco.domain.replay.rehearsal import rehearse
from roboco.domain.status import TaskStatus
from tests.support.memory_ports.controlled import CONTROLLED, CUT_OFF
from tests.support.memory_ports.journeys import CUSTOM, GRAPH, JOURNEYS, SEQUENTIAL, member
from tests.support.memory_ports.model import said
from tests.support.memory_ports.world import TASK, World, given, team_of
from tests.support.stack import ROOT
from tests.unit.domain.recorded_tasks import FORK, OTHERS, closed_by, forked, graph_past, travelled
from tests.unit.engine.test_listings import listing, shopping

ROUTERS = '''
def by_turns(team, history):
    """Each agent once, the last one first."""
    from roboco import Route

    names = [agent.name for agent in team.agents if agent.name not in history.state.turns]
    return Route(names[-1] if names else "END", "custom", "by turns", f"{len(names)} to go")
'''
NASTY = "quotes \" ' \"\"\" ''' \\ \\n {braces} %s \x1b[31m\x00\x7f\r\n\u2028\u202e Grüße 世界 \U0001f600 \\u0041"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("ROBOCO_WORKSPACE", (tmp_path / "workspace").as_uri())
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.delenv("ROBOCO_TOOL_MODULES", raising=False)


def stored(world: World, *task_ids: str) -> None:
    """Keep the tasks in a folder, as a workspace does."""
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


def printed(command: click.Command, *arguments: str, code: int = 0) -> str:
    """What the command prints on stdout, when it ends with this code."""
    result = call(command, *arguments)
    assert result.exception is None, result.exception
    assert (result.return_value or 0) == code, result.output
    return result.stdout


def test_why_shows_how_a_tool_has_changed() -> None:
    world, _ = shopping(2, later=listing("Sell\u200b."))
    world.settle()
    stored(world)
    for path in (name for name in world.files.held if "/mcp/" in name):
        _put(path, world.files.held[path])
    shown = printed(why, TASK)
    assert '     was "Buy an article."' in shown
    assert r'     now "Sell\u200b."' in shown
    (change,) = json.loads(printed(why, TASK, "--json"))["changes"]
    assert change["parts"] == [{"part": "description", "before": '"Buy an article."', "after": '"Sell\u200b."'}]


def run_pytest(*files: str) -> tuple[int, str]:
    """The generated tests, run as their owner runs them: nothing but Roboco is there."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", *files]
    env = {"PATH": "", "PYTHONPATH": f"{ROOT}:.", "ROBOCO_REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    return done.returncode, done.stdout + done.stderr


def team_file(name: str, **fields: Any) -> str:
    """A team file with the graph's agents."""
    agents = [{"name": agent, "prompt": "x"} for agent in ("writer", "critic")]
    Path(name).write_text(json.dumps({"name": "desk", "agents": agents} | fields))
    return name


def graph(**edges: Any) -> dict[str, Any]:
    return {"type": "graph", "routing_graph": edges}


SHAPES: dict[str, Callable[[], World]] = {
    name: lambda journey=journey: travelled(journey)  # type: ignore[misc]
    for name, journey in {**JOURNEYS, **CONTROLLED, **CUT_OFF}.items()
}
SHAPES["closed"] = lambda: closed_by(lambda world: world.stop())


def with_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the custom team's router, which the operator allows."""
    Path("shop").mkdir()
    Path("shop/__init__.py").write_text("")
    Path("shop/routers.py").write_text(ROUTERS)
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("ROBOCO_TOOL_MODULES", "shop.routers")


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_replays_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "custom":
        with_router(monkeypatch)
    stored(world := SHAPES[name]())
    count = len(world.history())
    assert f"{count} of {count} choices are the same" in printed(replay_task, TASK).splitlines()[-1]
    told = json.loads(printed(replay_task, TASK, "--json"))
    assert (told["same"], told["verdicts"], len(told["choices"])) == (True, {"same": count}, count)


def test_every_shape_becomes_a_test_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    with_router(monkeypatch)
    for name, made in SHAPES.items():
        stored(made())
        assert call(export_test, TASK, "-o", f"test_{name}.py").exception is None
    stored(nasty())
    assert call(export_test, TASK, "-o", "test_nasty.py").exception is None
    stored(forked(travelled(SEQUENTIAL), seq=2, team=OTHERS), FORK)
    assert call(export_test, FORK, "-o", "test_fork.py").exception is None
    names = [f"test_{name}.py" for name in (*SHAPES, "nasty", "fork")]
    code, output = run_pytest(*names)
    assert code == 0, output
    assert f"{len(names)} passed" in output


# --- why -------------------------------------------------------------------------------------------------------


def test_why() -> None:
    stored(travelled(GRAPH))
    lines = printed(why, TASK).splitlines()
    assert lines[0] == "task task_1 · team desk"
    assert sum(line.startswith("── step ") for line in lines) == 6
    assert "   why      after writer always" not in lines
    assert "   rule     critic[1] -> writer, of the graph router" in lines
    assert lines[-1] == '── the task ended (completed): no agent is next: critic: contains "APPROVED"'
    one = printed(why, TASK, "5")
    assert "step 5 · writer" in one
    assert "step 3" not in one
    record = json.loads(printed(why, TASK, "5", "--json"))
    assert [step["seq"] for step in record["steps"]] == [5]
    assert record["steps"][0]["candidates"][1] == {"name": "critic[1] -> writer", "taken": True, "why": "taken"}


def test_why_of_a_step_that_is_not_there() -> None:
    stored(travelled(GRAPH))
    error = call(why, TASK, "17").exception
    assert isinstance(error, UsageError)
    assert str(error).endswith("the task has the steps 0 to 6, those of agents are 1, 2, 3, 4, 5, 6")


def test_why_needs_no_router_of_the_users_own() -> None:
    stored(travelled(CUSTOM))
    assert "by turns, of the custom router" in printed(why, TASK)


def test_nothing_of_others_reaches_the_terminal() -> None:
    stored(nasty())
    assert not set("\x1b\x00\x7f\u202e") & set(printed(why, TASK) + printed(replay_task, TASK))


@pytest.mark.parametrize("command", [why, replay_task, export_test])
def test_a_task_that_does_not_exist(command: click.Command) -> None:
    error = call(command, "none").exception
    assert isinstance(error, UsageError)
    assert "no task 'none' in workspace" in str(error)


# --- replay ----------------------------------------------------------------------------------------------------


def test_replay_by_another_team() -> None:
    stored(travelled(GRAPH))
    file = team_file("other.json", collaboration_model=graph(writer=["critic"], critic=["END"]))
    output = printed(replay_task, TASK, "--team", file, code=1)
    assert "  step 3  differs: writer acts (graph: critic[1] -> writer)" in output
    assert "          chosen now: ends (completed): after critic always" in output
    assert output.splitlines()[-1] == "5 of 7 choices are the same; different: step 3, step 5"
    record = json.loads(printed(replay_task, TASK, "--team", file, "--json", code=1))
    assert (record["same"], record["verdicts"]) == (False, {"same": 5, "differs": 2})


def test_replay_by_a_team_that_lacks_an_agent() -> None:
    stored(travelled(GRAPH))
    Path("less.yaml").write_text("name: less\nagents: [{name: writer, prompt: x}]")
    assert "team 'less' has no agent 'critic'" in printed(replay_task, TASK, "--team", "less.yaml", code=1)


def test_replay_of_a_changed_history() -> None:
    stored(world := travelled(GRAPH))
    lines = [line.replace(b"APPROVED", b"REFUSED") for line in world.histories.lines(TASK)]
    _put(history_path(TASK), b"".join(line + b"\n" for line in lines))
    assert printed(replay_task, TASK, code=1).splitlines()[-1].endswith("different: the end")


@pytest.mark.parametrize("command", [replay_task, export_test])
def test_a_router_is_imported_only_if_the_operator_allows_it(command: click.Command) -> None:
    stored(travelled(CUSTOM))
    error = call(command, TASK).exception
    assert isinstance(error, UsageError)
    assert "module 'shop.routers' is not in ROBOCO_TOOL_MODULES" in str(error)


def test_replay_of_a_fork_begins_with_its_own_steps() -> None:
    stored(forked(travelled(SEQUENTIAL), seq=2, team=OTHERS), FORK)
    lines = printed(replay_task, FORK).splitlines()
    assert lines[0].startswith("  step 3  same: the user's message")
    assert lines[-1] == f"{len(lines) - 1} of {len(lines) - 1} choices are the same"


def test_what_depends_on_the_moment_is_no_difference() -> None:
    stored(travelled(GRAPH))
    summary = json.loads(Path("workspace", summary_path(TASK)).read_bytes())
    _put(summary_path(TASK), json.dumps(summary | {"status": TaskStatus.PAUSED}).encode())
    result = call(replay_task, TASK)
    assert result.return_value == 0
    assert result.stdout.splitlines()[-1] == "6 of 6 choices are the same; 1 depends on the moment"
    assert "redis does not answer" in result.stderr.lower()


# --- export-test ---------------------------------------------------------------------------------------------------


def nasty() -> World:
    """A task in which everybody says what a source file must not trip over."""
    deep: Any = "x"
    for _ in range(55):
        deep = [deep]
    team = team_of(
        agents=[member("first", tools=["add"])],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        description=NASTY,
    )
    args = {"text": NASTY, NASTY: [1e300, -0.0, None, True], "": deep}

    def script(request: Any) -> Any:
        return said(NASTY, ("add", args)) if len(request.messages) < 3 else said("half \ud83d of it")

    world = World(given(script, {"add": lambda args, context: {NASTY: [NASTY, "\udc00", 10**30]}}))
    world.submit(team, NASTY)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    return world


def test_whatever_was_said_the_file_is_python() -> None:
    stored(nasty())
    text = printed(export_test, TASK)
    assert text == "".join(letter for letter in text if letter.isprintable() or letter == "\n")
    ast.parse(text)


def test_halves_of_characters_are_escaped() -> None:
    past = graph_past()
    recording, expected = recording_of(past), rehearse(past.team, recording_of(past))
    halves = RecordedCall(tool="add", args={"half": "\udfff\ud800"}, parts=())
    text = render_test("halves", past.team, recording.model_copy(update={"calls": (halves,)}), expected, None)
    assert text.encode().count(b"\\ud800") == 1
    [assigned] = [node for node in ast.parse(text).body if isinstance(node, ast.Assign) and len(node.targets) == 1][1:]
    assert ast.literal_eval(assigned.value)["calls"][0]["args"] == halves.args


def changes(text: str, *pairs: tuple[str, str]) -> Iterable[str]:
    for before, after in pairs:
        assert before in text
        yield text.replace(before, after, 1)


def test_a_changed_team_fails_readably() -> None:
    stored(travelled(GRAPH))
    text = printed(export_test, TASK)
    pairs = (
        ("{'to': 'writer', 'max_times': 3}", "{'to': 'writer', 'max_times': 1}"),
        ("{'to': 'END', 'when': {'contains': 'APPROVED'}}", "{'to': 'END'}"),
        ("{'to': 'writer', 'max_times': 3}", "{'to': 'USER'}"),
    )
    names = [f"test_changed_{index}.py" for index in range(len(pairs))]
    for name, changed in zip(names, changes(text, *pairs), strict=True):
        Path(name).write_text(changed)
    code, output = run_pytest(*names)
    assert code == 1
    assert f"{len(names)} failed" in output
    assert "assert ['writer', 'critic'] == [" in output


def test_it_guards_a_team_file() -> None:
    stored(travelled(GRAPH))
    Path("tests").mkdir()
    good = graph(writer=["critic"], critic=[{"to": "END", "when": {"contains": "APPROVED"}}, "writer"])
    file = team_file('it\'s "the" team.json', collaboration_model=good)
    result = call(export_test, TASK, "--team", file, "-o", "tests/test_file.py")
    assert result.stderr == "written to tests/test_file.py; run it with: pytest tests/test_file.py\n"
    assert run_pytest("tests/test_file.py")[0] == 0
    team_file(file, collaboration_model=graph(writer=["critic"], critic=["END"]))
    code, output = run_pytest("tests/test_file.py")
    assert code == 1
    assert "assert ['writer', 'critic'] ==" in output
    told = call(export_test, TASK, "--team", file).stderr
    assert "the test fails now" in told
    assert "writer, critic would act, and then it would be completed: after critic always" in told


def test_a_file_that_is_there_is_kept() -> None:
    stored(travelled(GRAPH))
    Path("test_mine.py").write_text("mine")
    error = call(export_test, TASK, "-o", "test_mine.py").exception
    assert isinstance(error, UsageError)
    assert "--force" in str(error)
    assert Path("test_mine.py").read_text() == "mine"
    assert call(export_test, TASK, "-o", "test_mine.py", "--force").exception is None
    assert "RECORDING" in Path("test_mine.py").read_text()
    assert isinstance(call(export_test, TASK, "-o", "nowhere/test_mine.py").exception, UsageError)


def test_a_router_that_is_no_longer_the_same_makes_no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    with_router(monkeypatch)
    stored(travelled(CUSTOM))
    Path("shop/routers.py").write_text(ROUTERS.replace("names[-1]", "names[0]"))
    error = call(export_test, TASK).exception
    assert isinstance(error, UsageError)
    assert "at step 1 its team chooses otherwise than was recorded" in str(error)
