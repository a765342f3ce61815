"""A team that may use all tools of an MCP server, and the pictures that these tools return."""

import base64
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from roboco import parse_team
from tests.support.mcp_server_stdio import PIXEL
from tests.support.mcp_servers import SHOP
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three workers that may start the MCP server `shop`."""
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, allowlist={"mcp_servers": (shlex.join(SHOP),)}, mcp_sandbox="off") as started:
        yield started


def team(**server: Any) -> dict[str, Any]:
    """Return a team of a photographer, whose model takes images, and a reader, whose model does not."""
    return {
        "name": "studio",
        "models": {"sees": {"model": "scripted", "images": True}, "reads": {"model": "scripted", "default": True}},
        "agents": [
            {"name": "photographer", "prompt": "photograph", "model": "sees", "tools": ["mcp:shop"]},
            {"name": "reader", "prompt": "read"},
        ],
        "mcp_servers": {"shop": {"command": list(SHOP), "connect_timeout": 60} | server},
    }


def test_pictures_are_sent_to_models_that_take_images_and_named_to_others(stack: Stack) -> None:
    seen: dict[str, Request] = {}

    def answer(request: Request) -> Reply:
        seen[request.system] = request
        photographs = request.system == "photograph" and not request.tool_results
        return Reply(tool_calls=[("shop_photo", {})]) if photographs else Reply(text="done")

    stack.model.script(answer)
    task = stack.orchestrator.run(parse_team(team()), "go")
    assert task.result(60).status == "completed"
    artifacts = {artifact.mime_type: artifact for artifact in task.artifacts()}
    assert set(artifacts) == {"image/png", "audio/ogg", "text/csv"}
    picture = artifacts["image/png"]
    assert task.artifact(picture.name) == PIXEL
    assert picture.step_id == task.history()[1].step_id, "the step that called the tool"
    shown = [part for message in seen["photograph"].messages for part in parts(message) if part["type"] == "image_url"]
    assert {part["image_url"]["url"] for part in shown} == {f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"}
    for text in (str(seen["read"].messages), str(task.history()), str(seen["photograph"].tool_results)):
        assert f"(stored as {picture.uri})" in text or picture.uri in text
        assert base64.b64encode(PIXEL).decode() not in text


def test_a_tool_name_that_the_server_does_not_have_fails_the_task(stack: Stack) -> None:
    stack.model.script(lambda request: Reply(text="never"))
    task = stack.orchestrator.run(parse_team(team(tools=["photo", "foto"])), "go")
    ended = task.result(60)
    assert ended.status == "failed"
    reason = (
        "photographer: MCP server 'shop' has no tool 'foto', which team 'studio' names; it lists: 'photo', 'search'"
    )
    assert reason in ended.reason


def parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message, or an empty list if its content is plain text."""
    content = message.get("content")
    return content if isinstance(content, list) else []
