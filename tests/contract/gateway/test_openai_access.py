"""OpenAI's API for callers of other tenants and teams, and while many reads wait."""

from itertools import product
from typing import Any

from tests.support.gateway_rest import RestWorld
from tests.support.memory_ports.model import says

PREFIX = "/openai/v1"
ROUTES = [
    ("GET", "/responses/resp_{}_0", None),
    ("GET", "/responses/resp_{}_0?stream=true", None),
    ("GET", "/responses/resp_{}_0/input_items", None),
    ("POST", "/responses/resp_{}_0/cancel", None),
    ("DELETE", "/responses/resp_{}_0", None),
    ("GET", "/conversations/conv_{}", None),
    ("POST", "/conversations/conv_{}", {"metadata": {"a": "b"}}),
    ("DELETE", "/conversations/conv_{}", None),
    ("GET", "/conversations/conv_{}/items", None),
    ("POST", "/conversations/conv_{}/items", {"items": [{"role": "user", "content": "a"}]}),
    ("GET", "/conversations/conv_{}/items/msg_1", None),
    ("DELETE", "/conversations/conv_{}/items/msg_1", None),
    ("POST", "/responses", {"model": "desk", "input": "a", "previous_response_id": "resp_{}_0"}),
    ("POST", "/responses", {"model": "desk", "input": "a", "conversation": "conv_{}"}),
    (
        "POST",
        "/responses",
        {"model": "desk", "input": [{"type": "function_call_output", "call_id": "tc_1.{}", "output": "a"}]},
    ),
    (
        "POST",
        "/chat/completions",
        {"model": "desk", "messages": [{"role": "tool", "tool_call_id": "tc_1.{}", "content": "a"}]},
    ),
]
"""The routes that name a task, and their bodies."""


def named(value: Any, task_id: str) -> Any:
    """Return the value with the task in each of its texts."""
    if isinstance(value, str):
        return value.replace("{}", task_id)
    if isinstance(value, list):
        return [named(one, task_id) for one in value]
    return {key: named(one, task_id) for key, one in value.items()} if isinstance(value, dict) else value


def ask(rest: RestWorld, caller: str, route: tuple[str, str, Any], task_id: str) -> Any:
    """Return the answer to a request that names this task."""
    method, path, body = (named(part, task_id) for part in route)
    return rest.client.request(method, f"{PREFIX}{path}", json=body, headers={"authorization": caller})


def test_another_tenants_task_is_unknown(rest: RestWorld) -> None:
    rest.run("acme:t1", says("hi"))
    steps = rest.orchestrator.task("acme:t1").history()
    for route, named_id in product(ROUTES, ("t1", "acme:t1")):
        found = ask(rest, "other", route, named_id)
        unknown = ask(rest, "other", route, named_id.replace("t1", "t9"))
        assert (found.status_code, unknown.status_code) == (404, 404), route
        assert found.json()["error"]["message"].replace("t1", "t9") == unknown.json()["error"]["message"]
    assert rest.orchestrator.task("acme:t1").history() == steps


def test_a_task_of_another_team_is_unknown(rest: RestWorld) -> None:
    answer = rest.post("/v1/tasks", {"team": "lab", "prompt": "hello", "task_id": "t2"})
    assert answer.status_code == 201
    rest.world.settle("acme:t2")
    assert [route for route in ROUTES if ask(rest, "desk", route, "t2").status_code != 404] == []


def test_a_key_names_the_profile_of_its_side_requests(rest: RestWorld) -> None:
    """Teams without a profile of this name have no utility model for it, and other keys none of this team."""
    names = {caller: rest.get(f"{PREFIX}/models", caller).json()["data"] for caller in ("front", "acme")}
    found = {caller: [one["id"] for one in models] for caller, models in names.items()}
    assert found == {"front": ["desk", "lab", "desk:utility"], "acme": ["desk", "lab"]}
    body = {"model": "desk:utility", "input": "a title", "background": True}
    assert rest.post(f"{PREFIX}/responses", body, "acme").status_code == 404
    created = rest.post(f"{PREFIX}/responses", body, "front").json()
    team = rest.orchestrator.task(f"acme:{created['conversation']['id'].removeprefix('conv_')}").team()
    assert [(agent.model, agent.tools) for agent in team.agents] == [("good", ())]
