"""Requests of chats and of MCP clients that are hostile, or beyond the rights and limits of their caller."""

import json
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from roboco.client.task import Task
from roboco.engine.accept import accept_item, accept_task
from roboco.errors import TransientError
from roboco.gateway.answers import chats
from roboco.gateway.answers.chats import Chat, Message, accept, chat_of
from roboco.gateway.answers.ids import first_task_id
from roboco.gateway.bodies.body_budget import MAX_HELD_OF_OWNER
from roboco.gateway.openai.accepting import TurnRequest
from roboco.gateway.openai.repetition import Repetition
from roboco.gateway.openai.turn import Turn
from tests.support.gateway_rest import CALLERS, DESK, KEY, LAB, RestWorld, rest_world
from tests.support.memory_ports.model import says

UI = '{"id": "c", "messages": [{"role": "user", "id": %s, "parts": [{"type": "text", "text": "go"}]}], "tools": %s}'
RUN = '{"threadId": %s, "runId": "r", "messages": [{"role": "user", "id": "m", "content": "go"}], "tools": %s}'
WRONG_TOOLS = '[{"name": "a", "description": "d", "parameters": 5}]'
"""Tools for which a request is refused once its ids have been read: no answer is followed."""
DEEP = "[" * 90 + "]" * 90


def send(rest: RestWorld, path: str, body: str) -> Any:
    """Send a body as it is."""
    return rest.client.post(path, content=body, headers={KEY: "acme", "content-type": "application/json"})


def test_a_chat_with_values_that_are_no_json_is_refused(rest: RestWorld) -> None:
    for path, body in [
        ("/ai/desk", UI % (r'"\ud800"', WRONG_TOOLS)),
        ("/ai/desk", UI % ("NaN", WRONG_TOOLS)),
        ("/ai/desk", UI % (DEEP, WRONG_TOOLS)),
        ("/agui/desk", RUN % (r'"\ud800"', WRONG_TOOLS)),
        ("/agui/desk", RUN % ('"c"', f'[{{"name": "a", "description": "d", "parameters": {DEEP}}}]')),
    ]:
        answer = send(rest, path, body)
        assert answer.status_code in (400, 422), answer.text
    assert list(rest.orchestrator.task_ids()) == []


def test_an_answer_without_a_list_of_parts_is_refused(rest: RestWorld) -> None:
    first = first_task_id("acme", "desk", "c")
    rest.run(f"acme:{first}")
    body = f'{{"id": "c", "messages": [{{"role": "assistant", "id": "msg_{first}_0", "parts": 5}}]}}'
    answer = send(rest, "/ai/desk", body)
    assert (answer.status_code, "no result of a tool" in answer.text) == (400, True)


def said(text: str) -> Message:
    """Return a message of the user, whose id is its text."""
    return {"role": "user", "id": text, "parts": [{"type": "text", "text": text}]}


def bring(rest: RestWorld, tasks: int | None, *messages: Message) -> str:
    """Bring messages to the chat, as a request that has counted this number of its tasks. Return the id of the task."""
    gateway, caller = rest.app.state.gateway, CALLERS["acme"]
    request = TurnRequest(gateway, caller, Repetition(caller), "desk", Turn(), True, {}, {})
    assert rest.client.portal is not None
    chat = rest.client.portal.call(chat_of, gateway, caller, "desk", "c")
    chat = chat if tasks is None else replace(chat, tasks=tasks)
    turn, _ = rest.client.portal.call(partial(accept, request, chat, messages, False))
    return turn.task.task_id


def test_branches_that_begin_at_the_same_moment_are_two_tasks_and_an_erased_one_keeps_its_number(
    rest: RestWorld,
) -> None:
    first = first_task_id("acme", "desk", "c")
    rest.run(f"acme:{first}")

    def begin(text: str, tasks: int | None = None) -> str:
        return bring(rest, tasks, {"role": "assistant", "id": f"msg_{first}_0", "parts": []}, said(text))

    # both requests have counted one task
    assert [begin(text, 1) for text in ("one", "two", "one")] == [f"acme:{first}_{number}" for number in (2, 3, 2)]
    for number in (2, 3):
        path = f"/v1/operations/erasures/acme:{first}_{number}"
        rest.client.post(path, json={"stop": True}, headers={KEY: "local"})
    for _ in range(3):
        rest.world.sweep()
        rest.world.clock.move(400)
    assert rest.get(f"/v1/tasks/{first}_2").status_code == 410
    assert begin("three") == f"acme:{first}_4"


def test_a_thread_whose_task_has_ended_goes_on_in_one_fork(rest: RestWorld) -> None:
    first = first_task_id("acme", "desk", "c")
    task = rest.orchestrator.task(rest.run(f"acme:{first}", conversation=True))
    task.stop()
    rest.world.settle(task.task_id)
    sent = [bring(rest, None, said("hello"), said(text)) for text in ("one", "one", "two")]
    assert sent == [f"acme:{first}_2"] * 3
    rest.world.settle(f"acme:{first}_2")
    texts = [step.text for step in rest.orchestrator.task(f"acme:{first}_2").steps() if step.agent_name == "user"]
    assert texts == ["hello", "one", "two"]


def test_a_chat_whose_first_task_another_message_begins_is_busy(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(text: str) -> Any:
        said = [{"role": "user", "id": text, "content": text}]
        return rest.post("/agui/desk", {"threadId": "c", "runId": "r", "messages": said})

    def die(*_: object) -> None:
        raise TransientError("the process dies")

    monkeypatch.setattr(chats, "GROWTH_PAUSES", (0.0,))
    monkeypatch.setattr(accept_task, "_store_summary", die)
    assert send("first").status_code == 503
    busy = send("second")
    assert (busy.status_code, "another message begins" in busy.text) == (503, True)


@pytest.mark.parametrize(
    ("max_items", "text", "reason"),
    [(1, "other", "has 1 items in its inbox"), (9, "go", "with other tools or options")],
)
def test_a_conflict_with_the_task_of_a_chat_is_refused_at_once_with_its_reason(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch, max_items: int, text: str, reason: str
) -> None:
    first = first_task_id("acme", "desk", "c")
    rest.run(f"acme:{first}", conversation=True)
    answer: Message = {"role": "assistant", "id": f"msg_{first}_0", "parts": []}
    bring(rest, 1, answer, said("go") | {"id": "m"})
    monkeypatch.setattr(accept_item, "MAX_ITEMS", max_items)
    monkeypatch.setattr(chats, "GROWTH_PAUSES", (0.0,))
    tools = [{"name": "a", "description": "d", "parameters": {"type": "object"}}]
    messages = [
        {"role": "assistant", "id": answer["id"], "content": "done"},
        {"role": "user", "id": "m", "content": text},
    ]
    refused = rest.post("/agui/desk", {"threadId": "c", "runId": "r", "messages": messages, "tools": tools})
    assert (refused.status_code, reason in refused.text) == (409, True), refused.text


def call_mcp(rest: RestWorld, method: str, caller: str = "acme", **params: Any) -> Any:
    """Return the response to a request of an MCP client."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return rest.post("/mcp", body, caller, accept="application/json, text/event-stream")


def test_an_mcp_client_opens_no_stream_without_a_request(rest: RestWorld) -> None:
    """Such a stream would count against no limit, and last until its client goes."""
    assert rest.get("/mcp", accept="text/event-stream").status_code == 405


@pytest.mark.parametrize(("method", "params"), [("resources/list", {}), ("resources/read", {"uri": "roboco://t/x"})])
def test_an_error_of_a_server_shows_mcp_clients_no_address(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch, method: str, params: dict[str, Any]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise TransientError("redis://10.0.0.7:6379 does not answer")

    for name in ("task", "task_page"):
        monkeypatch.setattr(rest.orchestrator, name, refuse)
    answer = call_mcp(rest, method, **params)
    assert ("does not answer, or is busy" in answer.text, "10.0.0.7" in answer.text) == (True, False)


def test_the_context_of_an_mcp_tool_has_what_the_prompts_of_its_team_use(rest: RestWorld) -> None:
    stream = call_mcp(rest, "tools/list").text
    tools = json.loads(stream[stream.index("{") :])["result"]["tools"]
    schemas = {one["name"]: one["inputSchema"] for one in tools}
    found = schemas["desk"]["properties"]["context"]
    assert found["properties"] == {"customer": {"type": "object", "properties": {"name": {}}}}
    assert ("context" in schemas["desk"]["required"]) == ("required" in found)
    assert schemas["lab"]["properties"]["context"]["properties"] == {}


def test_a_message_to_a_task_that_is_paused_at_a_limit_is_refused(rest: RestWorld) -> None:
    """Its answer would begin once an operator raises the limit."""
    limited = {**LAB, "name": "desk", "limits": {"max_steps": 3, "at_limit": "pause"}}
    task_id = rest.run(f"acme:{first_task_id('acme', 'desk', 'c')}", team=limited, conversation=True)
    task = rest.orchestrator.task(task_id)
    task.send("more")
    rest.world.settle(task_id)
    assert task.pending_actions().at_limit()
    said = [{"role": "user", "id": str(number), "content": "go"} for number in range(2)]
    answer = rest.post("/agui/desk", {"threadId": "c", "runId": "r", "messages": said})
    assert (answer.status_code, answer.json()["code"]) == (409, "limit_reached")


def test_a_call_of_an_mcp_client_ends_at_the_exit_of_the_process(
    rest: RestWorld, caplog: pytest.LogCaptureFixture
) -> None:
    rest.app.state.gateway.closing.set()
    with caplog.at_level(logging.INFO, "roboco.audit"):
        answer = call_mcp(rest, "tools/call", name="desk", arguments={"prompt": "go"})
    [task_id] = rest.orchestrator.task_ids()
    assert f"{task_id.removeprefix('acme:')} goes on" in answer.text
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "roboco.audit"]
    assert [one["outcome"] for one in lines if one["task"] == task_id] == ["accepted"]


def test_a_chat_is_stopped_by_callers_with_its_tenant_team_and_scope(rest: RestWorld) -> None:
    team = {**LAB, "agents": [{"name": "chemist", "prompt": "Mix."}]}
    rest.run(f"acme:{first_task_id('acme', 'lab', 'c')}", team=team, conversation=True)
    for caller, status in {"other": 404, "desk": 404, "reader": 403, "none": 403, "acme": 200}.items():
        for path in ("/ai/lab/c/stop", "/agui/lab/threads/c/stop"):
            assert rest.post(path, caller=caller).status_code == status, (caller, path)


def test_the_state_of_an_mcp_call_reaches_no_other_tenants_task(rest: RestWorld) -> None:
    task_id = rest.run("acme:t", says("", ("ship", {})))
    [call] = rest.orchestrator.task(task_id).pending_actions().unapproved()
    for state, caller in (("acme:t", "other"), ("t", "other"), ("t", "reader")):
        answers = {call.id: {"action": "accept", "content": {"approve": True}}}
        given = {"name": "desk", "arguments": {}, "requestState": state, "inputResponses": answers}
        answer = call_mcp(rest, "tools/call", caller, **given)
        assert '"error":{"code":-32602' in answer.text
        assert "no task" in answer.text or "lacks the scope" in answer.text
    assert rest.orchestrator.task(task_id).pending_actions().unapproved() == [call]


def call_task(
    rest: RestWorld, method: str, caller: str = "acme", forms: bool = True, more_meta: Any = None, **params: Any
) -> Any:
    """Return the response to a request about a task of MCP, by a client that names the extension for tasks."""
    prefix, version = "io.modelcontextprotocol", "2026-07-28"
    named: dict[str, Any] = {"extensions": {f"{prefix}/tasks": {}}, **({"elicitation": {"form": {}}} if forms else {})}
    meta = {f"{prefix}/protocolVersion": version, f"{prefix}/clientCapabilities": named}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta | (more_meta or {}), **params}}
    name = params.get("name") or params["taskId"]
    headers = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
    return rest.post("/mcp", body, caller, accept="application/json, text/event-stream", **headers).json()


def test_a_task_of_mcp_is_one_of_its_callers(rest: RestWorld) -> None:
    task_id = rest.run("acme:t", says("", ("ship", {})))
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        more: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
        for caller, detail in {"other": "no task", "none": "lacks the scope"}.items():
            assert detail in call_task(rest, method, caller, taskId="t", **more)["error"]["message"]
    assert not rest.orchestrator.task(task_id).summary().status.ended


def test_a_task_of_mcp_asks_by_a_form_a_client_that_shows_forms(rest: RestWorld) -> None:
    task = rest.orchestrator.task(rest.run("acme:t", says("", ("ship", {}))))
    [call] = task.pending_actions().unapproved()
    without = call_task(rest, "tasks/get", forms=False, taskId="t")["result"]
    assert [one["call_id"] for one in without["result"]["structuredContent"]["waits_for"]] == [call.id]
    asked = call_task(rest, "tasks/get", taskId="t")["result"]
    assert (asked["status"], list(asked["inputRequests"])) == ("input_required", [call.id])
    accepted = {"action": "accept", "content": {"approve": True}}
    for _ in range(2):
        answers = {"unknown": {"any": "thing"}, call.id: accepted}
        assert "error" not in call_task(rest, "tasks/update", taskId="t", inputResponses=answers)
    assert task.pending_actions().unapproved() == []


def test_a_repeated_call_of_mcp_with_a_key_is_one_task(rest: RestWorld) -> None:
    def begin(prompt: str, key: object) -> Any:
        meta = {"roboco/idempotency-key": key}
        return call_task(rest, "tools/call", name="desk", arguments={"prompt": prompt}, more_meta=meta)["result"]

    assert begin("go", "k")["taskId"] == begin("go", "k")["taskId"] != begin("go", "l")["taskId"]
    assert begin("other", "k")["isError"]
    assert begin("go", "k" * 256)["isError"]
    assert begin("go", 7)["isError"]


def test_a_client_of_mcp_without_a_token_finds_the_provider(tmp_path: Path) -> None:
    issuer = "https://login.example"
    with rest_world(tmp_path, oidc_issuer=issuer, oidc_audience="roboco") as rest:
        refused = call_mcp(rest, "tools/list", caller="stranger")
        address = refused.headers["www-authenticate"].removeprefix('Bearer resource_metadata="').removesuffix('"')
        found = rest.get(address, caller="stranger").json()
    assert (refused.status_code, found["authorization_servers"]) == (401, [issuer])
    assert found["resource"] == address.replace("/.well-known/oauth-protected-resource", "")


def test_the_status_of_a_task_of_mcp_is_its_answer_so_far(rest: RestWorld) -> None:
    """Models send null for what they leave out, and misspell actions."""
    rest.run("acme:t", says("the note"))
    given = {"task_id": "t", "action": "status", "call_id": None, "reason": None}
    stream = call_mcp(rest, "tools/call", name="roboco_task", arguments=given).text
    found = json.loads(stream[stream.index("{") :])["result"]
    assert (found["isError"], found["structuredContent"]["text"]) == (False, "the note")
    refused = call_mcp(rest, "tools/call", name="roboco_task", arguments=given | {"action": "stopp"}).text
    assert ('"isError":true' in refused, "action: Input should be" in refused) == (True, True)


def test_a_task_of_mcp_that_goes_on_meanwhile_is_read_as_it_is(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision may end the wait between two reads. The request holds its thread for no further step."""
    task_id = rest.run("acme:t", says("", ("ship", {})))
    task = rest.orchestrator.task(task_id)
    waiting = task.summary()
    task.approve(task.pending_actions().unapproved()[0].id)
    monkeypatch.setattr(Task, "is_at_rest", lambda *_: True)
    monkeypatch.setattr(Task, "summary", lambda _: waiting)
    monkeypatch.setattr(Task, "settled_summary", lambda _: waiting)
    found = call_task(rest, "tasks/get", forms=False, taskId="t")["result"]
    assert found["result"]["structuredContent"]["status"] == "approval"


def test_another_team_of_the_tenant_cannot_take_the_next_message_of_a_chat(rest: RestWorld) -> None:
    first = first_task_id("acme", "desk", "c")
    for task_id in (first, f"{first}_2", "a2a_ctx", f"acme:{first}_2", f"oa_{first[3:]}_x"):
        refused = rest.post("/v1/tasks", {"team": "lab", "prompt": "mine", "task_id": task_id, "conversation": True})
        assert (refused.status_code, "task_id: a chat" in refused.text) == (400, True), refused.text
    lab = {**LAB, "agents": [{"name": "chemist", "prompt": "Mix."}]}
    rest.run(f"acme:{first}", conversation=True)
    rest.run(f"acme:{first}_2", team=lab, conversation=True)
    steps = rest.orchestrator.task(f"acme:{first}_2").history()
    said = [{"role": "user", "id": str(number), "content": "secret"} for number in range(2)]
    ui = [{"role": "user", "id": str(number), "parts": [{"type": "text", "text": "secret"}]} for number in range(2)]
    for path, body in (
        ("/agui/desk", {"threadId": "c", "runId": "r", "messages": said}),
        ("/ai/desk", {"id": "c", "messages": ui}),
        ("/ai/desk/c/stop", None),
    ):
        answer = rest.post(path, body)
        assert (answer.status_code, "another team" in answer.text) == (409, True), path
    assert rest.orchestrator.task(f"acme:{first}_2").history() == steps


def test_a_message_to_a_task_that_waits_for_an_answer_is_refused(rest: RestWorld) -> None:
    """Else it would wait, and its client with it, until a person answers."""
    task_id = rest.run(
        f"acme:{first_task_id('acme', 'desk', 'c')}", says("", ("ship", {}), ("ship", {})), conversation=True
    )
    [call, _] = rest.orchestrator.task(task_id).pending_actions().unapproved()
    said = [{"role": "user", "id": str(number), "content": "go"} for number in range(2)]
    answer = rest.post("/agui/desk", {"threadId": "c", "runId": "r", "messages": said})
    assert (answer.status_code, call.id in answer.text) == (400, True)
    assert rest.orchestrator.task(task_id).history()[-1].calls


def test_an_answer_to_a_form_without_a_decision_decides_nothing(rest: RestWorld) -> None:
    task = rest.orchestrator.task(rest.run("acme:t", says("", ("ship", {"note": "x" * 3000}))))
    [call] = task.pending_actions().unapproved()
    asked = call_task(rest, "tasks/get", taskId="t")["result"]["inputRequests"][call.id]
    assert " ... and 1011 further characters) needs an approval" in asked["params"]["message"]
    for form, refused in (
        ({"action": "accept", "content": {"approve": "true"}}, True),
        ({"action": "decline", "content": {"approve": 1}}, True),
        ({"action": "cancel"}, False),
    ):
        answer = call_task(rest, "tasks/update", taskId="t", inputResponses={call.id: form})
        assert ("error" in answer) is refused, answer
        assert task.pending_actions().unapproved() == [call]
    call_task(rest, "tasks/update", taskId="t", inputResponses={call.id: {"action": "accept"}})
    assert task.pending_actions().unapproved() == []


def test_the_audit_log_names_the_operations_of_mcp(rest: RestWorld, caplog: pytest.LogCaptureFixture) -> None:
    rest.run("acme:t", says("", ("ship", {})))
    with caplog.at_level(logging.INFO, "roboco.audit"):
        begun = call_task(rest, "tools/call", name="desk", arguments={"prompt": "go"})["result"]["taskId"]
        call_task(rest, "tools/call", "none", name="roboco_task", arguments={"task_id": "t", "action": "stop"})
        call_task(rest, "tasks/cancel", "other", taskId="t")
        call_task(rest, "tasks/cancel", taskId="t")
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "roboco.audit"]
    found = [(one["action"], one["task"], one["outcome"]) for one in lines if one["action"] != "mcp"]
    assert found == [
        ("tools/call desk", f"acme:{begun}", "accepted"),
        ("tools/call roboco_task stop", "t", "refused"),
        ("tasks/cancel", "t", "refused"),
        ("tasks/cancel", "t", "accepted"),
    ]


def test_large_resources_that_mcp_clients_do_not_read_have_a_bound(rest: RestWorld) -> None:
    rest.run("acme:t", says("x" * 100_000))
    body = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "roboco://t/history"}}
    bodies = rest.app.state.gateway.bodies
    assert "x" * 100_000 in rest.post("/mcp", body, accept="application/json, text/event-stream").text
    with bodies.hold(CALLERS["acme"].owner, MAX_HELD_OF_OWNER):
        refused = rest.post("/mcp", body, accept="application/json, text/event-stream")
        run = {"threadId": "c", "runId": "r", "messages": [{"role": "user", "id": "m", "content": "x" * 300_000}]}
        assert rest.post("/agui/desk", run).status_code == 503
    assert "x" * 100_000 not in refused.text
    assert not bodies._held


def test_a_run_answers_a_client_tool_and_an_approval_of_one_step(rest: RestWorld) -> None:
    tool = {"name": "pick", "description": "d", "parameters": {"type": "object"}}
    said = {"role": "user", "id": "m", "content": "go"}
    first = f"acme:{first_task_id('acme', 'desk', 'c')}"
    rest.run(
        first,
        says("", ("client_pick", {}), ("ship", {})),
        client_tools=[{"name": "client_pick", "description": "d"}],
        conversation=True,
    )
    task = rest.orchestrator.task(first)
    [picked], [shipped] = task.pending_actions().unanswered(), task.pending_actions().unapproved()
    result = {"role": "tool", "id": "r", "toolCallId": picked.id, "content": "red"}
    older = {"role": "tool", "id": "o", "toolCallId": "tc_0", "content": "old"}
    resumed = {"interruptId": shipped.id, "status": "resolved", "payload": {"approved": True}}
    run = {"threadId": "c", "runId": "r", "messages": [said, older, result], "tools": [tool], "resume": [resumed]}
    rest.app.state.gateway.closing.set()  # the answer is not followed
    assert rest.post("/agui/desk", run).status_code == 200
    rest.world.settle(first)
    assert [one.result for one in task.history()[2].results] == ["red", {"shipped": True}]


def test_a_chat_whose_id_has_a_slash_is_stopped(rest: RestWorld) -> None:
    rest.run(f"acme:{first_task_id('acme', 'desk', 'room/1')}", conversation=True)
    for path in ("/ai/desk/room/1/stop", "/agui/desk/threads/room/1/stop"):
        assert rest.post(path).status_code == 200, path
    assert rest.get("/ai/desk/room/1/stream").status_code == 204


def test_the_file_of_a_team_may_have_another_name_than_the_team(rest: RestWorld) -> None:
    Path(str(rest.orchestrator.settings.teams_dir), "support.yaml").write_text(
        yaml.safe_dump({**DESK, "name": "helpdesk"})
    )
    said = [{"role": "user", "id": "m", "parts": [{"type": "text", "text": "go"}]}]
    rest.app.state.gateway.closing.set()  # no answer is followed
    assert rest.post("/ai/support", {"id": "c", "messages": said}).status_code == 200
    [task_id] = rest.orchestrator.task_ids()
    rest.world.settle(task_id)
    assert rest.post("/ai/support/c/stop").status_code == 200


def test_a_task_of_another_request_counts_once_its_summary_is_stored(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter([0, 0, 1])
    monkeypatch.setattr(chats, "_count", lambda *_: next(counts))
    assert rest.client.portal is not None
    found = rest.client.portal.call(chats.grown, Chat(rest.app.state.gateway, CALLERS["acme"], "desk", "c", 0))
    assert found.newest == "c"
