"""Requests that are written to break the gateway get an answer that says what is wrong with them."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import current_thread
from typing import Any

import pytest
from fastapi import FastAPI

from roboco.gateway.rest import openapi
from tests.support.gateway_rest import KEY, RestWorld

DEEP = "[" * 900 + "]" * 900
SCOPED = '{"team": "desk", "prompt": "x", "scope": {"a": %s}}'
ETA = '{"team": "desk", "prompt": "x", "eta": "%s"}'
CHAT = '{"model": "desk", "messages": [{"role": "assistant", "tool_calls": %s}, {"role": "user", "content": "x"}]}'


def test_a_hostile_body_is_refused(rest: RestWorld) -> None:
    for path, body, status in [
        ("/v1/tasks", SCOPED % DEEP, 422),
        ("/v1/tasks", SCOPED % "NaN", 422),
        ("/v1/tasks", ETA % "0001-01-01T00:00:00+14:00", 400),
        ("/v1/tasks", ETA % "9999-12-31T23:59:59-14:00", 400),
        ("/v1/ai/agents/desk/invoke", r'{"values": {"\ud800": "x"}}', 400),
        ("/openai/v1/chat/completions", CHAT % "7", 400),
        ("/openai/v1/chat/completions", CHAT % '{"a": 1}', 400),
    ]:
        headers = {KEY: "acme", "content-type": "application/json"}
        answer: Any = rest.client.post(path, content=body, headers=headers)
        assert answer.status_code == status, (body, answer.text)
        assert json.loads(answer.text)


def test_a_file_for_a_task_that_exists_needs_the_scope_of_controls(rest: RestWorld) -> None:
    rest.run("acme:t1")
    submitter = {KEY: "submitter"}
    assert rest.client.put("/v1/tasks/t1/files/a.txt", content=b"x", headers=submitter).status_code == 403
    assert rest.client.put("/v1/tasks/t2/files/a.txt", content=b"x", headers=submitter).status_code == 201
    assert rest.client.put("/v1/tasks/t1/files/a.txt", content=b"x", headers={KEY: "acme"}).status_code == 201


def test_no_response_redirects_to_the_host_of_a_request_and_no_page_loads_scripts_of_another(rest: RestWorld) -> None:
    assert rest.get("/v1/tasks/", host="evil.example").status_code in (403, 404)
    assert [rest.get(path).status_code for path in ("/v1/tasks/", "/docs", "/redoc")] == [404] * 3


PROTOCOLS = {
    "rest": ("/v1/tasks", '{"team": "desk", "prompt": "x", "context": {"a": [%s]}}', '{"history": [%s]}', (413, 422)),
    "openai": ("/openai/v1/chat/completions", '{"model": "desk", "x": [%s]}', '{"messages": [%s]}', (413, 400)),
    "roboto": ("/v1/ai/chats", '{"client_context": {"a": [%s]}}', '{"client_tools": [%s]}', (400, 400)),
    "ag-ui": ("/agui/desk", '{"state": [%s]}', '{"threadId": "c", "runId": "r", "messages": [%s]}', (413, 422)),
}


def send(rest: RestWorld, path: str, pieces: list[bytes]) -> Any:
    headers = {KEY: "acme", "content-type": "application/json"}
    return rest.client.post(path, content=iter(pieces), headers=headers)


def test_a_body_of_many_small_values_is_refused_before_it_is_parsed(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[object] = []
    monkeypatch.setattr("starlette.requests.json.loads", parsed.append)
    for path, frame, _, (status, _) in PROTOCOLS.values():
        body = (frame % ",".join(["1"] * 60_000)).encode()
        answer = send(rest, path, [body[:50_001], body[50_001:]])
        assert answer.status_code == status, answer.text
        assert "more than 50000 values" in answer.text
    assert parsed == []


def test_thousands_of_mistakes_are_not_listed(rest: RestWorld) -> None:
    for protocol, (path, _, frame, (_, status)) in PROTOCOLS.items():
        wrong = frame % ",".join(['{"x": 1}' if protocol == "rest" else "1"] * 20_000)
        answer = send(rest, path, [wrong.encode()])
        assert answer.status_code == status, answer.text
        if protocol != "rest":  # an array of the REST API has its own limit, which is one mistake
            assert "mistakes, too many to list them" in answer.text


def test_a_body_of_utf_16_is_refused(rest: RestWorld) -> None:
    assert send(rest, "/v1/tasks", ['{"team": "desk", "prompt": "x"}'.encode("utf-16")]).status_code == 400


def test_a_name_that_is_twice_in_an_object_is_refused(rest: RestWorld) -> None:
    body = b'{"team": "desk", "prompt": "a", "context": {"a": 1, "a": 2}, "team": "lab"}'
    for path in ("/v1/tasks", "/openai/v1/responses", "/v1/ai/chats", "/v1/sign-in"):
        answer = send(rest, path, [body])
        assert (answer.status_code, "twice" in answer.text) == (400, True), path


def test_the_document_of_the_api_is_built_once_in_a_thread(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[str]()
    built = openapi._completed

    def recorded(app: FastAPI) -> dict[str, Any]:
        threads.append(current_thread().name)
        return built(app)

    monkeypatch.setattr(openapi, "_completed", recorded)
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda _: rest.client.get("/v1/openapi.json"), range(4)))
    assert [one.status_code for one in answers] == [200] * 4
    assert len({one.content for one in answers}) == len(threads) == 1
    assert not threads[0].startswith(("MainThread", "AnyIO", "asyncio-portal"))
