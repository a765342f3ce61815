"""Programs that have copied the documents' classes read a task's records and submit their own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from roboco import Task, parse_team
from roboco.gateway.streams.form import ServerSentEvents
from tests.integration.cli.shell import Shell
from tests.support import forked
from tests.support.document_classes import (
    AgentMessage,
    AgentSessionDelta,
    AgentSessionRecord,
    Document000,
    Document001,
    Document002,
    TextPart,
)
from tests.support.documents import example
from tests.support.gateway_process import GatewayProcess
from tests.support.gateway_streams import frames_of, shown
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import TOOLS, Stack

pytestmark = pytest.mark.workers

TEAM = parse_team(
    {
        "name": "literal",
        "agents": [
            {"name": "one", "prompt": "First.", "tools": ["add", "fail", "artifact_write"]},
            {"name": "two", "prompt": "Second."},
        ],
        "tools": [
            {"name": "add", "function": f"{TOOLS}:add"},
            {"name": "fail", "function": f"{TOOLS}:raise_error"},
        ],
    }
)
GOALS = [{"name": "plan", "description": "a plan", "schema": {"type": "object"}}]
STREAMS = ("000", "001", "002")
STEPS: dict[str, type[BaseModel]] = {
    "000": Document000.TaskStep,
    "001": Document001.TaskStep,
    "002": Document002.TaskStep,
    "003": AgentMessage,
}


def answer(request: Request) -> Reply:
    """Return calls, one of which fails and one of which writes a file; then a text."""
    if request.system.startswith("First") and not request.tool_results:
        file = {"name": "a.txt", "content": "sea"}
        return Reply(tool_calls=[("add", {"a": 1, "b": 2}), ("fail", {"message": "no"}), ("artifact_write", file)])
    return Reply(text="Done. ")


@pytest.fixture(scope="module")
def task(shared_stack: Stack) -> Task:
    """Return a task that has ended, with calls, a failed result, a file and a goal that was not reached."""
    shared_stack.model.script(answer)
    imported = [
        Document000.TaskStep(
            id="step_1", agent_name="user", parts=[TextPart(text="hello")], created_at="2026-01-02T03:04:05"
        ),
        Document002.TaskStep(agent_name="one", parts=[TextPart(text="hi")]),
    ]
    task = shared_stack.orchestrator.run(TEAM, "go", history=imported, goals=GOALS, agent="one")
    task.result(60)
    return task


@pytest.fixture(scope="module")
def client(shared_stack: Stack) -> Iterator[httpx2.Client]:
    with GatewayProcess(shared_stack) as gateway, httpx2.Client(base_url=gateway.url, timeout=60) as client:
        yield client


@pytest.mark.parametrize("form", STEPS)
def test_history_in_a_form_is_read_by_the_classes_of_its_document(
    form: Any, shared_stack: Stack, task: Task, client: httpx2.Client
) -> None:
    records = task.history(form=form)
    assert len(records) == len(task.history())
    for record in records:
        assert STEPS[form].model_validate_json(json.dumps(record)).model_dump(mode="json") == {
            name: value for name, value in record.items() if name in STEPS[form].model_fields
        } or form in ("002", "003")
    paged: list[Any] = []
    start: int | None = 0
    while start is not None:
        page = client.get(f"/v1/tasks/{task.task_id}/history", params={"form": form, "start": start, "limit": 2}).json()
        paged, start = paged + page["steps"], page["next"]
    assert paged == records
    if form == "000":
        shell = Shell(shared_stack.folder, shared_stack.environment)
        assert shell.call_json("show", task.task_id, "--json", "--form", form)["steps"] == records


def test_example_of_the_guide_reads_the_task(shared_stack: Stack, task: Task, tmp_path: Path) -> None:
    (program := tmp_path / "read_documents.py").write_text(example("file", "read_documents.py"))
    printed = forked.run_script(program, task.task_id, env=shared_stack.environment).splitlines()
    assert [line.split()[1] for line in printed[: len(task.history())]] == [step.agent_name for step in task.history()]
    assert {"AgentTextDeltaEvent", "AgentToolUseEvent", "AgentToolResultEvent"} <= {*printed}


def test_live_items_have_the_names_of_the_document_that_a_client_asks_for(task: Task, client: httpx2.Client) -> None:
    """`tests/unit/domain/test_reading_form.py` reads each kind of item by the classes of its document."""
    path = f"/v1/tasks/{task.task_id}/events"
    followed = {
        form: shown(frames_of(client.get(path, params={"form": form}).content, ServerSentEvents)) for form in STREAMS
    }
    assert [one.data for one in followed["000"] if one.kind == "step_final"] == task.history(form="000")
    assert {"event_task_start", "event_tool_call", "event_tool_result"} <= {one.kind for one in followed["001"]}
    assert [one.data["step"] for one in followed["002"] if one.kind == "event_step_end"] == task.history(form="002")
    page = client.get(path, params={"form": "001", "format": "json", "limit": 1000}).json()
    assert [one["data"] for one in page["items"]] == [one.data for one in followed["001"]]
    assert client.get(path, params={"form": "003"}).status_code == 422


@pytest.mark.parametrize("path", ["session", "delta"])
def test_session_with_a_goal_is_read_by_the_classes_of_document_003(
    path: str, task: Task, client: httpx2.Client
) -> None:
    kind = AgentSessionRecord if path == "session" else AgentSessionDelta
    answered = client.get(f"/v1/tasks/{task.task_id}/{path}", params={"form": "003"})
    read = kind.model_validate_json(answered.text)
    own = task.session(form="003") if path == "session" else task.delta(form="003")
    assert json.loads(own.model_dump_json()) == answered.json()
    assert read.goals is not None
    assert [(goal.goal_type, goal.status) for goal in read.goals] == [("plan", "failed")]
    assert read.goals[0].concluded_at is not None
