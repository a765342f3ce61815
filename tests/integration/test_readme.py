"""The README's files, run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from roboco import CallContext
from roboco.adapters.team.file import team_from
from roboco.domain.history.part import ToolCall
from roboco.domain.team.tool_spec import ToolSpec
from tests.journeys import answer
from tests.memory.workspace import MemoryFiles, MemoryHistories
from tests.servers.model_server import Reply, Request
from tests.stack import ROOT, Stack
from tests.toolboxes import toolbox_of

README = (ROOT / "README.md").read_text()


def files(folder: Path) -> None:
    """Write the files that the README shows."""
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL):
        (folder / name).write_text(text)


def python(stack: Stack, folder: Path, *arguments: str) -> str:
    environment = stack.environment | {"ROBOCO_TOOL_MODULES": "shop_tools"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def responder(request: Request) -> Reply:
    if request.system.startswith("You review"):
        return Reply(text="APPROVED")
    assert "the sea for sailors" in request.system
    if request.count("assistant") == 0:
        return Reply(tool_calls=[("word_count", {"text": "waves come and go"})])
    return Reply(text=f"Waves come and go, in {request.tool_results[0][1]} words. ")


@pytest.mark.workers
def test_the_team_of_the_readme(tmp_path: Path) -> None:
    files(tmp_path)
    with Stack(tmp_path, pools=()) as stack:
        stack.model.script(responder)
        for pool in ("coordinator", "agents", "tools"):
            stack.start(pool, ROBOCO_TOOL_MODULES="shop_tools", PYTHONPATH=f"{ROOT}:{tmp_path}")
        assert python(stack, tmp_path, "service.py") == "Waves come and go, in 4 words. APPROVEDcompleted\n"
        (history,) = tmp_path.glob("workspace/task_*/history.jsonl")
        python(stack, tmp_path, "check.py", str(history))
        history.write_bytes(history.read_bytes().replace(b"Waves come", b"Waves cone", 1))
        changed = subprocess.run([sys.executable, tmp_path / "check.py", history], capture_output=True, text=True)
        assert changed.stderr == "step 3 was changed\n"
        assert stack.model.violations == []
        stack.model.script(answer)


def test_the_tool_of_the_readme_finds_out_what_came_of_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    toolbox = toolbox_of(MemoryFiles(), MemoryHistories(), ("shop_mail",), tmp_path / "index")
    spec = ToolSpec(name="send_mail", function="shop_mail:send_mail")
    team = team_from({"name": "mails", "agents": [{"name": "one", "prompt": "hi"}]})
    call = ToolCall(id="tc_1", tool_name="send_mail", args={"to": "ann", "text": "hello"})
    context = CallContext("t", "one", "tc_1", "t/tc_1", 1)
    before = toolbox.verify(call, spec, context)
    assert before is not None
    assert before.result.is_error
    assert toolbox.run(team, call, spec, context).result.result == "sent"
    after = toolbox.verify(call, spec, context)
    assert after is not None
    assert after.result.result == "sent"


def test_the_example_of_the_readme_is_the_one_that_ships() -> None:
    (shown,) = re.findall(r"<!-- example: sse.py -->\n```python\n(.*?)```", README, re.DOTALL)
    assert shown.rstrip() in (ROOT / "roboco" / "examples" / "sse.py").read_text()


def test_the_commands_of_compose_are_those_of_the_readme() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    for pool in ("coordinator", "agents", "tools"):
        command = compose["services"][pool]["command"]
        assert f"`{command}`" in README
