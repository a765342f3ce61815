"""`roboco top` beside real workers: on a terminal, as one picture, and as JSON."""

import pytest

from roboco import parse_team
from tests.integration.cli.process import CommandTerminal
from tests.integration.cli.shell import Shell
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack

pytestmark = pytest.mark.workers

TEAM = {
    "name": "newsroom",
    "models": {"standard": {"model": "scripted", "default": True, "tokens_per_minute": 50_000}},
    "agents": [{"name": "speaker", "prompt": "speaker"}],
}


def test_top_shows_queues_tasks_and_rates_of_a_running_team(folder_stack: Stack) -> None:
    stack = folder_stack
    stack.model.script(lambda request: Reply(text="word " * 400, interval=0.1))
    tasks = [stack.orchestrator.run(parse_team(TEAM), "speak", task_id=f"top-{number}") for number in range(3)]
    next(item for item in tasks[0].stream() if item.type == "text_part_delta")
    seen = Shell(stack.folder, stack.environment).call_json("top", "--json", "--tasks", "2")
    assert [queue["workers"] for queue in seen["queues"]] == [1, 1, 1]
    assert seen["open_tasks"] == 3
    assert [task["team"] for task in seen["tasks"]] == ["newsroom"] * 2
    assert {task["agent"] for task in seen["tasks"]} == {"speaker"}
    assert seen["rates"][0]["requests"] >= 1
    assert seen["rates"][0]["max_tokens"] == 50_000
    assert seen["errors"] == []
    with CommandTerminal(["top", "--every", "0.2"], stack.folder, stack.environment) as live:
        live.resize(140, 40)
        live.wait_for_text("top-0")
        live.wait_for_text("newsroom")
        live.resize(60, 16)
        live.wait_for_text("and 1 more worker")
        live.type_text("q")
        assert live.wait_for_exit() == 0
    for task in tasks:
        task.stop()
        assert task.result(60).status == "cancelled"


def test_top_shows_an_unreachable_broker(folder_stack: Stack) -> None:
    stack = folder_stack
    env = stack.environment | {"ROBOCO_BROKER_URL": "redis://127.0.0.1:1/0"}
    shown = Shell(stack.folder, env).call("top", "--once")
    assert "the broker does not take" in shown
    assert "celery@" in shown, "workers register in Redis"
