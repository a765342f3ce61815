"""The AI SDK's and AG-UI's streams while workers are killed and Redis is emptied: the text is that of the history.

`tests/clients` drives the packages of these protocols, unmodified.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import redis

from tests.support.gateway_openai import LONG_ANSWER, answer, write_teams
from tests.support.gateway_process import GatewayProcess
from tests.support.stack import Stack, until
from tests.unit.gateway.answers.test_streams import Agent, Page

pytestmark = pytest.mark.workers
PROMPT = "a slow and long answer"


@pytest.fixture(scope="module")
def own_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Yield a gateway before workers of this module, which it kills."""
    folder: Path = tmp_path_factory.mktemp("stack")
    with Stack(folder, teams_dir=write_teams(folder / "teams")) as stack:
        stack.model.script(answer)
        with GatewayProcess(stack) as gateway:
            yield gateway


def post(gateway: GatewayProcess, path: str, body: dict[str, Any], **headers: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a request."""
    url, own = f"http://127.0.0.1:{gateway.port}{path}", {"content-type": "application/json", **headers}
    with urlopen(Request(url, json.dumps(body).encode(), own), timeout=120) as response:
        for line in response:
            if line.startswith(b"data: {"):
                yield json.loads(line.removeprefix(b"data: "))


def strike(gateway: GatewayProcess, fault: str) -> None:
    """Kill the agents worker, and start another one, or empty Redis."""
    stack = gateway.stack
    if fault == "worker":
        stack.restart("agents")
    else:
        with redis.Redis.from_url(stack.valkey.url) as connection:
            connection.flushall()


def read(gateway: GatewayProcess, events: Iterator[dict[str, Any]], fault: str, kind: str) -> list[dict[str, Any]]:
    """Return the events of a stream. The fault strikes after some text."""
    seen: list[dict[str, Any]] = []
    for event in events:
        seen.append(event)
        if sum(one["type"] == kind for one in seen) == 8 and event["type"] == kind:
            strike(gateway, fault)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["worker", "redis"])
@pytest.mark.parametrize(
    ("path", "body", "kind", "client", "void"),
    [
        (
            "/ai/desk",
            lambda chat: {
                "id": chat,
                "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": PROMPT}]}],
            },
            "text-delta",
            Page,
            "reset-step",
        ),
        (
            "/agui/desk",
            lambda chat: {
                "threadId": chat,
                "runId": "run",
                "protocolVersion": "1.0",
                "messages": [{"id": "m", "role": "user", "content": PROMPT}],
            },
            "TEXT_MESSAGE_CONTENT",
            Agent,
            "MESSAGES_SNAPSHOT",
        ),
    ],
    ids=["ai-sdk", "ag-ui"],
)
def test_a_client_has_the_text_of_the_history(
    own_gateway: GatewayProcess,
    fault: str,
    path: str,
    body: Callable[[str], dict[str, Any]],
    kind: str,
    client: type[Page] | type[Agent],
    void: str,
) -> None:
    sent = body(f"{fault}{path}")
    seen = read(own_gateway, post(own_gateway, path, sent), fault, kind)
    assert void in [event["type"] for event in seen]
    assert client(seen).text == "".join(LONG_ANSWER)
    assert client(post(own_gateway, path, sent)).text == "".join(LONG_ANSWER)
    [task] = [one for one in own_gateway.stack.orchestrator.tasks(text=PROMPT) if one.task_id in json.dumps(seen)]
    steps = own_gateway.stack.orchestrator.task(task.task_id).history()
    assert [step.text for step in steps] == [PROMPT, "".join(LONG_ANSWER)]


def test_a_run_that_edits_the_arguments_of_a_call_approves_it_with_these(own_gateway: GatewayProcess) -> None:
    run = {"threadId": "edits", "runId": "run", "protocolVersion": "1.0", "messages": []}
    said = {"id": "m", "role": "user", "content": "add"}
    [asked] = list(post(own_gateway, "/agui/guarded", {**run, "messages": [said]}))[-1]["outcome"]["interrupts"]
    assert "editedArgs" in asked["responseSchema"]["properties"]

    def resume(edited: Any, decision: str = "approved") -> list[dict[str, Any]]:
        payload = {decision: True, "editedArgs": edited}
        entry = {"interruptId": asked["id"], "status": "resolved", "payload": payload}
        return list(post(own_gateway, "/agui/guarded", {**run, "resume": [entry]}))

    with pytest.raises(HTTPError, match="400"):
        resume("7")
    with pytest.raises(HTTPError, match="400"):
        resume({"a": 3, "b": 4}, "aproved")
    seen = resume({"a": 3, "b": 4})
    assert [event["content"] for event in seen if event["type"] == "TOOL_CALL_RESULT"] == ["7"]


def test_a_message_that_begins_a_branch_and_is_sent_again_counts_once(own_gateway: GatewayProcess) -> None:
    def send(*texts: str) -> str:
        """Send the last text after the answers to the others. Return the id of its answer's message."""
        messages: list[dict[str, Any]] = []
        for number, text in enumerate(texts):
            said = {"id": f"{number}", "role": "user", "parts": [{"type": "text", "text": text}]}
            seen = list(post(own_gateway, "/ai/desk", {"id": "branches", "messages": [*messages, said]}))
            assert Page(seen).text.endswith(text), seen
            [answered] = [event["messageId"] for event in seen if event["type"] == "start"]
            messages += [said, {"id": answered, "role": "assistant", "parts": []}]
        return str(answered)

    first = send("a first one", "more")
    for texts in (["an edited one"], ["a first one", "other"]):
        branch = send(*texts)
        assert (branch == first, send(*texts)) == (False, branch)


def ui_messages(chat: str, *assistant: dict[str, Any], text: str = "add and add") -> dict[str, Any]:
    """Return a request of the AI SDK with the user's message, and the parts of the assistant's."""
    said = {"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": chat, "messages": [said, *assistant]}


def test_a_page_approves_the_calls_of_sub_tasks_one_after_another(own_gateway: GatewayProcess) -> None:
    chunks = list(post(own_gateway, "/ai/chief", ui_messages("sub")))
    asked = [chunk["approvalId"] for chunk in chunks if chunk["type"] == "tool-approval-request"]
    assert [chunk["toolName"] for chunk in chunks if chunk["type"] == "tool-input-available"][-1] == "add"
    [start] = [chunk for chunk in chunks if chunk["type"] == "start"]
    parts: list[dict[str, Any]] = []
    while asked:
        assert asked[0] not in [part["approval"]["id"] for part in parts]
        parts.append({"state": "approval-responded", "approval": {"id": asked[0], "approved": True}})
        body = ui_messages("sub", {"id": start["messageId"], "role": "assistant", "parts": parts})
        chunks = list(post(own_gateway, "/ai/chief", body))
        assert [chunk["messageId"] for chunk in chunks if chunk["type"] == "start"] == [start["messageId"]]
        asked = [chunk["approvalId"] for chunk in chunks if chunk["type"] == "tool-approval-request"]
    assert len(parts) == 2
    text = "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
    assert (text.count("The result is 3."), chunks[-1]["type"]) == (2, "finish")


def test_a_task_that_waits_after_its_sub_task_asks_in_a_new_step_and_run(own_gateway: GatewayProcess) -> None:
    chunks = list(post(own_gateway, "/ai/both", ui_messages("both", text="add")))
    [start] = [chunk for chunk in chunks if chunk["type"] == "start"]
    asked = []
    while found := [chunk["approvalId"] for chunk in chunks if chunk["type"] == "tool-approval-request"]:
        asked += found
        parts = [{"state": "approval-responded", "approval": {"id": found[0], "approved": True}}]
        body = ui_messages("both", {"id": start["messageId"], "role": "assistant", "parts": parts}, text="add")
        chunks = list(post(own_gateway, "/ai/both", body))
        steps = [chunk["type"] for chunk in chunks if chunk["type"] in ("start-step", "tool-approval-request")]
        assert steps in (["start-step", "tool-approval-request"], ["start-step"]), chunks
    assert len(asked) == 2
    text = "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
    assert ("'11'" in text, "The result is 3." in text) == (True, True)

    run = {"threadId": "another", "runId": "run", "protocolVersion": "1.0", "messages": []}
    events = list(post(own_gateway, "/agui/both", {**run, "messages": [{"id": "m", "role": "user", "content": "add"}]}))
    for _ in range(2):
        [interrupt] = events[-1]["outcome"]["interrupts"]
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        events = list(post(own_gateway, "/agui/both", {**run, "resume": [entry]}))
    assert events[-1]["outcome"]["type"] == "success"


WEATHER = {"name": "weather", "description": "The weather.", "parameters": {"type": "object"}}


def test_a_client_tool_beside_a_sub_task_is_answered_with_its_approval(own_gateway: GatewayProcess) -> None:
    body = ui_messages("tool", text="add and weather") | {"tools": [WEATHER]}
    chunks = list(post(own_gateway, "/ai/chief", body))
    [start] = [chunk["messageId"] for chunk in chunks if chunk["type"] == "start"]
    [asked] = [chunk["approvalId"] for chunk in chunks if chunk["type"] == "tool-approval-request"]
    [call] = [chunk["toolCallId"] for chunk in chunks if chunk.get("toolName") == "weather"]
    parts = [
        {"type": "step-start"},
        {"type": "tool-weather", "state": "output-available", "toolCallId": call, "output": "sun"},
        {"type": "step-start"},
        {"state": "approval-responded", "approval": {"id": asked, "approved": True}},
    ]
    body = ui_messages("tool", {"id": start, "role": "assistant", "parts": parts}, text="add and weather")
    chunks = list(post(own_gateway, "/ai/chief", body | {"tools": [WEATHER]}))
    text = "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
    assert ("The result is 3." in text, "sun" in text) == (True, True)

    run = {"threadId": "tool", "runId": "run", "protocolVersion": "1.0", "tools": [WEATHER]}
    user = {"id": "other", "role": "user", "content": "weather and add"}
    events = list(post(own_gateway, "/agui/chief", {**run, "threadId": "tool of a run", "messages": [user]}))
    [interrupt] = events[-1]["outcome"]["interrupts"]
    [call] = [event["toolCallId"] for event in events if event.get("toolCallName") == "weather"]
    result = {"id": "r", "role": "tool", "toolCallId": call, "content": "sun"}
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    sent = {**run, "threadId": "tool of a run", "messages": [user, result], "resume": resume}
    events = list(post(own_gateway, "/agui/chief", sent))
    assert ("The result is 3." in Agent(events).text, "sun" in Agent(events).text) == (True, True)


def test_a_message_while_a_sub_task_waits_for_an_approval_is_refused(own_gateway: GatewayProcess) -> None:
    list(post(own_gateway, "/ai/chief", ui_messages("refused", text="add")))
    message = {"id": "n", "role": "user", "parts": [{"type": "text", "text": "more"}]}
    with pytest.raises(HTTPError, match="400"):
        list(post(own_gateway, "/ai/chief", ui_messages("refused", message, text="add")))


def test_a_page_that_stops_after_a_decision_has_a_last_step_without_one(own_gateway: GatewayProcess) -> None:
    """Else a page that sends its answers automatically would do so without end."""
    chunks = list(post(own_gateway, "/ai/chief", ui_messages("stopped", text="slowly add")))
    [start] = [chunk["messageId"] for chunk in chunks if chunk["type"] == "start"]
    [asked] = [chunk["approvalId"] for chunk in chunks if chunk["type"] == "tool-approval-request"]
    parts = [{"state": "approval-responded", "approval": {"id": asked, "approved": True}}]
    body = ui_messages("stopped", {"id": start, "role": "assistant", "parts": parts}, text="slowly add")
    answer_of_decision = post(own_gateway, "/ai/chief", body)
    with ThreadPoolExecutor() as pool:
        kinds = pool.submit(lambda: [chunk["type"] for chunk in answer_of_decision])
        [task] = [one for one in own_gateway.stack.orchestrator.tasks(text="slowly add") if "." not in one.task_id]
        decided = own_gateway.stack.orchestrator.task(task.task_id).pending_actions()
        until(lambda: not decided.unapproved(), 60, "the decision is accepted")
        with urlopen(
            Request(f"http://127.0.0.1:{own_gateway.port}/ai/chief/stopped/stop", b"", method="POST")
        ) as stopped:
            assert stopped.status == 200
        assert kinds.result(60)[-4:] == ["start-step", "finish-step", "message-metadata", "abort"]


def test_a_page_that_reloads_is_asked_again_for_a_call_of_a_sub_task(own_gateway: GatewayProcess) -> None:
    list(post(own_gateway, "/ai/chief", ui_messages("reload")))
    with urlopen(f"http://127.0.0.1:{own_gateway.port}/ai/chief/reload/stream", timeout=120) as response:
        assert b'"tool-approval-request"' in response.read()


def test_a_run_resumes_with_the_decision_on_a_call_of_a_sub_task(own_gateway: GatewayProcess) -> None:
    run = {"threadId": "sub", "runId": "run", "protocolVersion": "1.0", "messages": []}
    said = {"id": "m", "role": "user", "content": "add"}
    [asked] = list(post(own_gateway, "/agui/chief", {**run, "messages": [said]}))[-1]["outcome"]["interrupts"]
    assert asked["message"] == "the call of add needs an approval"
    other = asked["id"].replace(asked["id"][5:12], "tc_0000", 1)
    entry = {
        "interruptId": asked["id"],
        "status": "resolved",
        "payload": {"approved": True, "editedArgs": {"a": 3, "b": 4}},
    }
    with pytest.raises(HTTPError, match="400"):
        list(post(own_gateway, "/agui/chief", {**run, "resume": [entry, {**entry, "interruptId": other}]}))
    for _ in range(2):  # the second one has the answer of the first
        seen = list(post(own_gateway, "/agui/chief", {**run, "resume": [entry]}))
        assert " 7." in Agent(seen).text, seen


def test_a_call_of_mcp_returns_once_a_sub_task_needs_an_approval(own_gateway: GatewayProcess) -> None:
    def call(name: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        found = list(post(own_gateway, "/mcp", body, accept="application/json, text/event-stream"))[-1]["result"]
        return dict(found["structuredContent"])

    asked = call("chief", prompt="add")
    [waiting] = asked["waits_for"]
    about = {"task_id": asked["task_id"], "call_id": waiting["call_id"]}
    assert "The result is 3." in call("roboco_task", action="approve", **about)["text"]
