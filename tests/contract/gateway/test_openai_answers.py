"""Results of functions of a hostile client: each call has one, and errors are short."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.gateway_rest import DESK, LAB, RestWorld, rest_world
from tests.support.memory_ports.model import says

TOOL = {"name": "client_pick", "description": "Let the user pick."}


def send(rest: RestWorld, route: str, call_ids: list[str]) -> Any:
    """Send a result for each of these calls of the task "t"."""
    if route == "responses":
        items = [{"type": "function_call_output", "call_id": call_id, "output": "1"} for call_id in call_ids]
        body: dict[str, Any] = {"input": items, "previous_response_id": "resp_t_0", "background": True}
    else:
        body = {"messages": [{"role": "tool", "tool_call_id": call_id, "content": "1"} for call_id in call_ids]}
    return rest.post(f"/openai/v1/{route}", {"model": "desk", **body})


@pytest.mark.parametrize("route", ["responses", "chat/completions"])
def test_two_results_of_a_call_are_refused_before_any_is_accepted(rest: RestWorld, route: str) -> None:
    """Each result costs a control, and a body has room for thousands."""
    rest.run("acme:t", says("", ("client_pick", {"n": 1})), client_tools=[TOOL])
    [call] = rest.orchestrator.task("acme:t").pending_actions().unanswered()
    answer = send(rest, route, [f"{call.id}.t"] * 2)
    assert (answer.status_code, "more than one result" in answer.text) == (400, True)
    assert len(rest.orchestrator.task("acme:t").pending_actions().unanswered()) == 1


@pytest.mark.parametrize("route", ["responses", "chat/completions"])
def test_an_error_about_thousands_of_calls_is_short(rest: RestWorld, route: str) -> None:
    rest.run("acme:t", says("", ("client_pick", {"n": 1})), client_tools=[TOOL])
    answer = send(rest, route, [f"tc_{number:060}.t" for number in range(3000)])
    assert (answer.status_code, len(answer.content) < 1000) == (400, True)


def test_more_files_than_a_message_has_are_refused_before_any_is_stored(
    rest: RestWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file costs two requests to the store, and a body has room for thousands."""
    team = {**DESK, "name": "eyes", "models": {"quick": {"model": "small", "default": True, "accepts": ["image"]}}}
    (tmp_path / "eyes.yaml").write_text(yaml.safe_dump(team))
    uploads = list[object]()
    monkeypatch.setattr(rest.orchestrator, "upload", lambda *given, **_: uploads.append(given))
    pictures = [b64encode(b"\x89PNG\r\n\x1a\n" + bytes([number])).decode() for number in range(21)]
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{one}"}} for one in pictures]
    body = {"model": "eyes", "messages": [{"role": "user", "content": content}]}
    answer = rest.post("/openai/v1/chat/completions", body)
    assert (answer.status_code, "at most 20 files" in answer.text, uploads) == (400, True, [])


def test_a_used_key_adds_no_file_to_the_task_of_another_request(rest: RestWorld, tmp_path: Path) -> None:
    """Keys of one tenant share their idempotency keys, but not all tasks."""
    team = {**LAB, "name": "desk", "models": {"quick": {"model": "small", "default": True, "accepts": ["image"]}}}
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(team))
    key = {"Idempotency-Key": "one"}
    assert rest.post("/openai/v1/responses", {"model": "lab", "input": "go", "background": True}, **key).is_success
    [task_id] = rest.orchestrator.task_ids()
    url = "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n").decode()
    said = [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]
    body = {"model": "desk", "input": said, "background": True}
    assert rest.post("/openai/v1/responses", body, "desk", **key).status_code == 422
    assert rest.orchestrator.task(task_id).artifacts() == []


def test_a_message_that_no_worker_applies_is_accepted_and_its_response_unavailable(tmp_path: Path) -> None:
    with rest_world(tmp_path, call_timeout=1.0) as rest:
        rest.run("acme:t", conversation=True)
        body = {"model": "desk", "input": "more", "previous_response_id": "resp_t_0", "background": True}
        answer = rest.post("/openai/v1/responses", body)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "false")
