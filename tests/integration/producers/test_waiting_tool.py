"""A tool that waits for a Celery task of a shop: of another application, whose worker takes no tool calls."""

from pathlib import Path

import pytest

from roboco import parse_team
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = [pytest.mark.workers, pytest.mark.slow]

TEAM = parse_team(
    {
        "name": "research",
        "agents": [{"name": "reader", "prompt": "reader", "tools": ["fetch_notes"]}],
        "tools": [{"name": "fetch_notes", "function": "tests.support.celery_shops.tools:fetch_notes"}],
    }
)


def answer(request: Request) -> Reply:
    if request.tool_results:
        return Reply(text=f"read: {request.tool_results[0][1]}")
    return Reply(tool_calls=[("fetch_notes", {"topic": "tides"})])


def test_a_tool_waits_for_a_celery_task_of_a_shop(tmp_path: Path) -> None:
    with Stack(tmp_path, tool_modules=("tests.support.celery_shops.tools",)) as stack:
        stack.model.script(answer)
        stack.start("shop", modules="tests.support.celery_shops")
        stack.wait_ready("shop")
        task = stack.orchestrator.run(TEAM, "About tides.")
        assert task.result(60).status == "completed"
        assert task.history()[-1].text == "read: notes on tides"
