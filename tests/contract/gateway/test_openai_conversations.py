"""Conversations of OpenAI's API before and after their first response: hostile, repeated, interrupted, erased."""

from typing import Any

import pytest

from roboco.domain.paths import conversation_path, tombstone_path
from roboco.errors import TransientError
from tests.support.gateway_rest import KEY, RestWorld
from tests.support.memory_ports.model import says

BASE = "/openai/v1/conversations"
DAY = 86_400.0


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def created(rest: RestWorld, *texts: str, caller: str = "acme", **headers: str) -> str:
    """Create a conversation with these items, and return its id."""
    body = {"items": [said(text) for text in texts], "metadata": {"topic": "demo"}}
    answer = rest.post(BASE, body, caller, **headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def texts(rest: RestWorld, name: str) -> list[str]:
    items = rest.get(f"{BASE}/{name}/items?order=asc&limit=100").json()["data"]
    return [item["content"][0]["text"] for item in items]


def respond(rest: RestWorld, name: str, text: str = "go", caller: str = "acme", **headers: str) -> Any:
    """Send a message to the conversation, and let its task run until it rests."""
    body = {"model": "desk", "input": text, "conversation": name, "background": True}
    rest.replies = [says("done")]
    answer = rest.post("/openai/v1/responses", body, caller, **headers)
    if answer.is_success:
        rest.world.settle(f"acme:{name.removeprefix('conv_')}")
    return answer


def delete(rest: RestWorld, path: str, caller: str = "acme", **headers: str) -> Any:
    return rest.client.delete(f"{BASE}/{path}", headers={KEY: caller, **headers})


def test_items_are_the_history_of_the_first_response_and_change_until_then(rest: RestWorld) -> None:
    name = created(rest, "one", "two")
    items = rest.get(f"{BASE}/{name}/items?limit=1").json()
    assert (items["data"][0]["content"][0]["text"], items["has_more"]) == ("two", True)
    assert delete(rest, f"{name}/items/{items['last_id']}").json()["id"] == name
    rest.post(f"{BASE}/{name}/items", {"items": [said("Be brief.", "system"), said("three", "assistant")]})
    assert respond(rest, name).json()["instructions"] == "Be brief."
    task = rest.orchestrator.task(f"acme:{name.removeprefix('conv_')}")
    assert [step.text for step in task.history()][:4] == ["one", "three", "go", "done"]
    assert texts(rest, name) == ["one", "Be brief.", "three", "go", "done"]
    assert rest.get(f"{BASE}/{name}").json()["metadata"] == {"topic": "demo"}
    assert rest.post(f"{BASE}/{name}", {"metadata": {"a": "b"}}).json()["metadata"] == {"a": "b"}
    known = rest.get(f"{BASE}/{name}/items").json()["last_id"]
    assert rest.get(f"{BASE}/{name}/items/{known}").json()["id"] == known
    changes = (delete(rest, f"{name}/items/{known}"), rest.post(f"{BASE}/{name}/items", {"items": [said("late")]}))
    assert [(one.status_code, one.headers["x-should-retry"]) for one in changes] == [(409, "false")] * 2


def test_a_deleted_conversation_is_empty_and_unknown_and_its_task_is_stopped(rest: RestWorld) -> None:
    for begun in (False, True):
        name = created(rest, "secret text")
        if begun:
            respond(rest, name)
        assert delete(rest, name).json() == {"id": name, "object": "conversation.deleted", "deleted": True}
        record = conversation_path(f"acme:{name.removeprefix('conv_')}")
        assert b"secret text" not in rest.world.files.held[record]
        for answer in (rest.get(f"{BASE}/{name}"), respond(rest, name), delete(rest, name)):
            assert answer.status_code == 404
        assert delete(rest, name, **{"x-stainless-retry-count": "1"}).status_code == 200
        if begun:
            rest.world.settle(f"acme:{name.removeprefix('conv_')}")
            assert rest.orchestrator.task(f"acme:{name.removeprefix('conv_')}").summary().status == "cancelled"


@pytest.mark.parametrize("header", [{"Idempotency-Key": "k"}, {"x-stainless-retry-count": "1"}])
def test_a_repeated_request_has_one_effect(rest: RestWorld, header: dict[str, str]) -> None:
    name = created(rest)
    body = {"items": [said("same"), said("same")]}
    first = rest.post(f"{BASE}/{name}/items", body, **({} if "1" in header.values() else header)).json()
    assert rest.post(f"{BASE}/{name}/items", body, **header).json() == first
    assert len({item["id"] for item in first["data"]}) == 2
    rest.post(f"{BASE}/{name}/items", body)
    assert texts(rest, name) == ["same"] * 4
    path = f"{name}/items/{first['last_id']}"
    assert [delete(rest, path).status_code for _ in range(2)] == [200, 404]
    assert delete(rest, path, **{"x-stainless-retry-count": "1"}).status_code == 200
    if "Idempotency-Key" in header:
        assert rest.post(f"{BASE}/{name}/items", {"items": [said("other")]}, **header).status_code == 422
        assert created(rest, "a", **header) == created(rest, "a", **header)
        assert rest.post(BASE, {"items": [said("b")]}, **header).status_code == 409


def test_items_do_not_change_while_a_first_message_may_have_them(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = created(rest, "one")
    add = {"items": [said("two")]}
    unknown = rest.post("/openai/v1/responses", {"model": "none", "input": "go", "conversation": name})
    assert unknown.status_code == 404
    assert rest.post(f"{BASE}/{name}/items", add).status_code == 200  # the message has not taken the items
    with monkeypatch.context() as patch:  # the gateway has taken the items, and does not know whether they arrive

        def lose(*_: object, **__: object) -> None:
            raise TransientError("no answer")

        patch.setattr(rest.orchestrator, "run", lose)
        assert respond(rest, name).status_code == 503
    assert rest.post(f"{BASE}/{name}/items", add).status_code == 409
    rest.world.clock.move(600)
    assert rest.post(f"{BASE}/{name}/items", add).status_code == 200
    assert respond(rest, name).status_code == 200
    assert texts(rest, name) == ["one", "two", "two", "go", "done"]


def test_a_first_message_that_arrives_twice_is_one_task(rest: RestWorld) -> None:
    name, key = created(rest, "one"), {"Idempotency-Key": "first"}
    assert respond(rest, name, **key).json()["id"] == respond(rest, name, **key).json()["id"]
    assert texts(rest, name) == ["one", "go", "done"]
    assert respond(rest, name, "other", **key).status_code == 422


def test_a_first_message_counts_once_though_others_came_at_the_same_moment(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, run = created(rest, "one"), rest.orchestrator.run
    key, other = {"Idempotency-Key": "first"}, {"Idempotency-Key": "second"}

    def lose(*_: object, **__: object) -> None:
        raise TransientError("no answer")

    def run_late(*args: Any, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(rest.orchestrator, "run", lose)
            assert respond(rest, name, "another", **other).status_code == 503
        return run(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(rest.orchestrator, "run", run_late)
        first = respond(rest, name, **key).json()["id"]
    assert respond(rest, name, **key).json()["id"] == first
    assert texts(rest, name) == ["one", "go", "done"]
    respond(rest, name, "another", **other)  # no first message: it is sent to the task
    rest.world.settle(f"acme:{name.removeprefix('conv_')}")
    assert texts(rest, name) == ["one", "go", "done", "another", "done"]


def test_no_other_tenant_and_no_key_of_other_teams_reaches_a_conversation_without_a_task(rest: RestWorld) -> None:
    name = created(rest, "one")
    for caller in ("other", "desk"):
        answers = [
            rest.get(f"{BASE}/{name}", caller),
            rest.get(f"{BASE}/{name}/items", caller),
            rest.post(f"{BASE}/{name}", {"metadata": {}}, caller),
            rest.post(f"{BASE}/{name}/items", {"items": [said("x")]}, caller),
            delete(rest, name, caller),
            respond(rest, name, caller=caller),
        ]
        assert {answer.status_code for answer in answers} == {404}
        assert {name} == {word for answer in answers for word in answer.text.split("'") if "conv_" in word}
    own = created(rest, "mine", caller="desk")
    assert rest.get(f"{BASE}/{own}", "desk").status_code == 200
    assert rest.get(f"{BASE}/{own}", "reader").status_code == 200
    assert [rest.post(f"{BASE}/{own}", {"metadata": {}}, caller).status_code for caller in ("reader", "none")] == [
        403
    ] * 2


def test_a_conversation_is_bounded(rest: RestWorld) -> None:
    name = created(rest)
    assert rest.post(f"{BASE}/{name}/items", {"items": [said("a")] * 1000}).status_code == 200
    full = rest.post(f"{BASE}/{name}/items", {"items": [said("a")]})
    assert (full.status_code, "is full" in full.text) == (400, True)
    assert respond(rest, name).status_code == 200
    large = rest.post(BASE, {"items": [said("a" * 1024 * 1024)]})
    assert (large.status_code, "is full" in large.text) == (400, True)
    deep: Any = "a"
    for _ in range(500):
        deep = [deep]
    assert rest.post(BASE, {"items": [{**said("a"), "x": deep}]}).status_code == 400
    given = [{**said("a"), "id": "msg_1"}] * 2
    assert (
        len({item["id"] for item in rest.post(f"{BASE}/{created(rest)}/items", {"items": given}).json()["data"]}) == 2
    )


def test_a_conversation_is_erased_with_its_tenant_by_its_id_and_after_its_lifetime(rest: RestWorld) -> None:
    """Nothing of it remains. A conversation of another tenant, and one that changes, stay."""
    names = [created(rest, "secret text") for _ in range(3)]
    ids = [f"acme:{name.removeprefix('conv_')}" for name in names]
    held, operator = rest.world.files.held, {KEY: "local"}
    rest.client.post(f"/v1/operations/erasures/{ids[0]}", json={}, headers=operator)
    rest.world.sweep()
    assert (tombstone_path(ids[0]) in held, conversation_path(ids[0]) in held) == (True, False)
    assert rest.get(f"{BASE}/{names[0]}").status_code in (404, 410)
    rest.world.clock.move(20 * DAY)
    rest.post(f"{BASE}/{names[1]}", {"metadata": {"a": "b"}})
    rest.world.clock.move(11 * DAY)
    for _ in range(3):
        rest.world.sweep()
    assert rest.get(f"{BASE}/{names[2]}").status_code == 404
    assert b"secret text" not in held[conversation_path(ids[2])]
    assert texts(rest, names[1]) == ["secret text"]
    other = created(rest, "kept", caller="other")
    for tenant in ("none", "acme"):
        body = {"tenant": tenant, "dry_run": False, "stop": True}
        rest.client.post("/v1/operations/erasures", json=body, headers=operator)
    rest.world.clock.move(40 * DAY)
    for _ in range(3):
        rest.world.sweep()
    assert not any(path.startswith(f"{one}/") for path in held for one in ids)
    assert rest.get(f"{BASE}/{other}", "other").status_code == 404  # expired, too
