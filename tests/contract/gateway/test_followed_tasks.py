"""The tasks of streams: found while the workspace is silent, and followed beside a damaged one."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from roboco.client.task import Task
from roboco.domain.paths import events_path
from roboco.domain.stream.event import TaskStarted
from roboco.domain.stream.item import stream_item
from roboco.engine.workspace_records import Summaries
from roboco.errors import CorruptHistory, TransientError
from roboco.gateway.gateway import Gateway
from roboco.gateway.problem import Problem
from roboco.gateway.streams.form import ServerSentEvents
from roboco.redis.stream.async_follower import AsyncFollower
from tests.support.gateway_rest import CALLERS, RestWorld
from tests.support.gateway_streams import Frame, frames_of

PLACE = "0192f7a1c2d3.1.0.0.1.0"


@pytest.fixture
def silent_workspace(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """Return a gateway with an open and an ended task of acme, whose workspace does not answer."""
    rest.run("acme:open", conversation=True)
    rest.run("acme:ended")

    def fail(*_: object) -> Any:
        raise TransientError("the workspace does not answer")

    monkeypatch.setattr(Summaries, "get", fail)
    found: Gateway = rest.app.state.gateway
    return found


def find(gateway: Gateway, caller: str, task_id: str) -> str:
    """Return the id of the task that a stream of the caller follows, or the code of the problem."""
    try:
        return asyncio.run(gateway.followed_task(CALLERS[caller], task_id)).task_id
    except TransientError:
        return "transient"
    except Problem as problem:
        return problem.code


@pytest.mark.parametrize(
    ("caller", "task_id", "found"),
    [
        ("acme", "open", "acme:open"),
        ("acme", "acme:open", "acme:open"),
        ("desk", "open", "acme:open"),
        ("local", "acme:open", "acme:open"),
        ("acme", "ended", "transient"),
        ("acme", "unknown", "transient"),
        ("other", "acme:open", "not_found"),
        ("other", "open", "transient"),
    ],
)
def test_an_open_task_is_followed_while_the_workspace_is_silent(
    silent_workspace: Gateway, caller: str, task_id: str, found: str
) -> None:
    assert find(silent_workspace, caller, task_id) == found


async def one_item(task: Task, cursor: str | None = None) -> AsyncGenerator[Any, None]:
    """Yield the first item of a stream, and the end, unless the task is damaged."""
    if task.task_id == "acme:damaged":
        raise CorruptHistory("step 3 of task 'acme:damaged' is missing")
    if task.task_id == "acme:odd":
        raise KeyError("seq")
    yield stream_item(TaskStarted(task_id=task.task_id, team="desk", timestamp=datetime.now(UTC)), PLACE)


def followed(rest: RestWorld, names: str, after: str = "") -> list[Frame]:
    """Return the frames of a stream of several tasks."""
    answer = rest.get(f"/v1/events?tasks={names}&after={after}")
    assert answer.status_code == 200, answer.text
    return frames_of(answer.content, ServerSentEvents)


def test_a_damaged_task_leaves_the_others_of_its_stream_alone(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("damaged", "odd", "whole"):
        rest.run(f"acme:{name}", conversation=True)
    monkeypatch.setattr(Task, "astream", one_item)
    frames = followed(rest, "damaged,odd,whole")
    errors = {frame.data["task_id"]: frame.data["data"] for frame in frames if frame.kind == "task_error"}
    assert {name: (data["code"], bool(data["remedy"])) for name, data in errors.items()} == {
        "acme:damaged": ("corrupt_history", True),
        "acme:odd": ("internal", True),
    }
    assert "step 3" in errors["acme:damaged"]["detail"]
    assert [frame.data["task_id"] for frame in frames if frame.kind == "event_task_start"] == ["acme:whole"]
    assert (frames[-1].kind, frames[-1].data["reason"], frames[-1].data["resume"]) == ("stream_end", "error", True)
    assert "KeyError" in caplog.text
    again = followed(rest, "damaged,odd,whole", frames[-1].place)
    assert [frame.kind for frame in again if frame.data is not None] == ["task_error", "task_error", "stream_end"]


async def no_records(*_: object) -> AsyncGenerator[None, None]:
    """Yield what a follower gets of a task whose logs have expired."""
    yield None


def test_a_log_that_cannot_be_read_is_named(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncFollower, "follow", no_records)
    for name in ("acme:damaged", "acme:whole"):
        rest.run(name)
        rest.world.server.held.tasks.pop(name, None)
    rest.world.files.held[events_path("acme:damaged")] = b"{\n"
    frames = followed(rest, "damaged,whole")
    errors = [frame.data for frame in frames if frame.kind == "task_error"]
    assert [(one["task_id"], one["data"]["code"]) for one in errors] == [("acme:damaged", "corrupt_history")]
    ends = [frame.data["task_id"] for frame in frames if frame.kind == "event_task_end"]
    assert ends == ["acme:whole"]
