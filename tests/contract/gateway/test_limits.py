"""Limits of callers in each protocol: applied before a task or message is accepted, in the form of its errors."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from roboco.client.caller_accounts import RedisCallerCounts, RefusedWrites
from roboco.client.task import Task
from roboco.domain.access_key import CallerLimits
from roboco.domain.usage import DayUsage, day_of
from roboco.gateway import access
from roboco.gateway.principal import ALL_SCOPES, Principal, Scope
from roboco.local.valkey import ValkeyServer
from tests.support.gateway_callers import choose_callers
from tests.support.gateway_rest import RestWorld, rest_world
from tests.support.memory_ports.model import says

SAID: Final = {"role": "user", "content": [{"text": "go"}]}
RESPONSES: Final = "/openai/v1/responses"
CREATIONS: Final[Mapping[str, tuple[str, Any]]] = {
    "task": ("/v1/tasks", {"team": "desk", "prompt": "go"}),
    "task fork": ("/v1/tasks/ended/fork", {"message": "again"}),
    "response": (RESPONSES, {"model": "desk", "input": "go", "background": True}),
    "response fork": (
        RESPONSES,
        {"model": "desk", "input": "go", "background": True, "previous_response_id": "resp_ended_0"},
    ),
    "chat": ("/v1/ai/chats", {"messages": [SAID]}),
    "chat fork": ("/v1/ai/chats/ended/fork", {"message_sequence_num": 0}),
    "agent": ("/v1/ai/agents/desk/invoke", {"values": {"prompt": "go"}}),
}
COMPLETION: Final = ("/openai/v1/chat/completions", {"model": "desk", "messages": [{"role": "user", "content": "go"}]})
MESSAGES: Final[Mapping[str, tuple[str, Any]]] = {
    "message": ("/v1/tasks/rests/messages", {"message": "more", "item_id": "m1"}),
    "interrupt": ("/v1/tasks/rests/interrupt", {"message": "more", "item_id": "m2"}),
    "response": (
        RESPONSES,
        {"model": "desk", "input": "more", "background": True, "previous_response_id": "resp_rests_0"},
    ),
    "chat": ("/v1/ai/chats/rests/messages", {"message": SAID}),
}


class LimitedWorld:
    """A gateway with one caller, whose limits a test sets."""

    def __init__(self, rest: RestWorld) -> None:
        self.rest = rest
        self.caller = Principal("key:acme", "acme", ALL_SCOPES - {Scope.OPERATE})
        choose_callers(rest.app, lambda _: self.caller)

    def limit(self, **limits: float) -> None:
        """Set the limits of the caller."""
        self.caller = replace(self.caller, limits=CallerLimits.model_validate(limits))

    def use_up(self) -> None:
        """Let the caller have used its tokens of the day."""
        self.limit(tokens_per_day=5)
        engine = self.rest.orchestrator._engine
        engine.services.rate_limiter.count_day(
            "acme:earlier", "key:acme", 1, DayUsage(day=day_of(engine.now()), tokens=5)
        )

    def occupy_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let another process hold the only stream of the caller. A request that follows a task fails at once."""
        for name in ("astream", "changed"):
            monkeypatch.setattr(Task, name, _unexpected)
        self.limit(open_streams=1)
        account = self.rest.app.state.gateway.limits.account(self.caller)
        assert self.rest.orchestrator.caller_limits.counts.hold_streams(account, "other", 1, 1) is None

    def tasks(self) -> set[str]:
        """Return the ids of all tasks."""
        return set(self.rest.orchestrator.task_ids())

    def post(self, request: tuple[str, Any], **headers: str) -> Any:
        """Send a request."""
        return self.rest.client.post(request[0], json=request[1], headers=headers)


def _unexpected(*_: object) -> Any:
    raise RuntimeError("the request follows a task")


@pytest.fixture
def world(tmp_path: Path, valkey: ValkeyServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LimitedWorld]:
    """Yield a gateway with a task that has ended, and one that waits for its user."""
    monkeypatch.setattr(access, "MAX_BODY", 2000)
    redis = {"redis_url": valkey.url, "prefix": prefix}
    with rest_world(tmp_path, redis, roboto_team="desk", call_timeout=5) as rest:
        made = LimitedWorld(rest)
        rest.run("acme:ended")
        rest.run("acme:rests", conversation=True)
        yield made


def check_refusal(answer: Any, limit: str) -> None:
    """Check that the answer is a refusal for this limit, in the form of its protocol."""
    body, path = answer.json(), answer.request.url.path
    assert answer.status_code == 429, body
    assert int(answer.headers["Retry-After"]) >= 1
    if path.startswith("/openai/"):
        assert (body["error"]["type"], body["error"]["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert (limit in body["error"]["message"], answer.headers["x-should-retry"]) == (True, "true")
    elif path.startswith("/v1/ai/"):
        assert (set(body), body["error"]["error_code"]) == ({"error"}, "RobotoLimitExceededException")
        assert limit in body["error"]["message"]
    else:
        assert (body["code"], body["limit"]) == ("rate_limited", limit)


def test_a_caller_that_has_used_its_day_creates_no_task_and_sends_no_message(world: LimitedWorld) -> None:
    before = world.tasks()
    world.use_up()
    steps = len(world.rest.orchestrator.task("acme:rests").history())
    for request in (*CREATIONS.values(), COMPLETION, *MESSAGES.values()):
        check_refusal(world.post(request), "tokens_per_day")
    assert world.tasks() == before
    world.rest.world.settle("acme:rests")
    assert len(world.rest.orchestrator.task("acme:rests").history()) == steps


def test_a_caller_that_has_used_its_day_answers_no_call_by_mcp(world: LimitedWorld) -> None:
    tool = {"name": "client_pick", "description": "Let the user pick."}
    world.rest.run("acme:asks", says("", ("client_pick", {"n": 1})), client_tools=[tool])
    pending = world.rest.orchestrator.task("acme:asks").pending_actions()
    [call] = pending.unanswered()
    world.use_up()
    given = {"task_id": "asks", "action": "answer", "call_id": call.id, "result": 1}
    params = {"name": "roboco_task", "arguments": given}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = world.post(("/mcp", body), accept="application/json, text/event-stream")
    assert ("tokens_per_day" in answer.text, pending.unanswered()) == (True, [call])


@pytest.mark.parametrize("name", ["message", "chat"])
def test_a_message_that_is_accepted_is_not_refused_when_it_is_repeated(world: LimitedWorld, name: str) -> None:
    assert world.post(MESSAGES[name]).status_code in (200, 202)
    world.use_up()
    assert world.post(MESSAGES[name]).status_code in (200, 202)


def test_a_task_gets_the_budget_of_its_caller(world: LimitedWorld) -> None:
    world.limit(max_steps=7, max_tokens=9000)
    for request in CREATIONS.values():
        before = world.tasks()
        world.post(request)  # a response of a fork waits for a worker, and the task exists
        [created] = world.tasks() - before
        limits = world.rest.orchestrator.task(created).team().limits
        assert (limits.max_steps, limits.max_tokens) == (7, 9000)
    for wanted, status in (({"max_steps": 8}, 403), ({"max_steps": None}, 403), ({"max_steps": 7, "max_cost": 9}, 202)):
        assert world.post(("/v1/tasks/rests/limits", {"limits": wanted})).status_code == status, wanted
    world.caller = replace(world.caller, scopes=ALL_SCOPES)
    assert world.post(("/v1/tasks/rests/limits", {"limits": {"max_steps": 8}})).status_code == 202


def test_reads_stops_and_operators_pass_while_redis_refuses_to_count(
    world: LimitedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.limit(requests_per_minute=5)

    def refuse(*_: object) -> None:
        raise RefusedWrites("redis refuses writes")

    monkeypatch.setattr(RedisCallerCounts, "admit", refuse)
    assert world.rest.client.get("/v1/tasks").status_code == 200
    assert world.post(("/v1/tasks/rests/stop", {"reason": "enough"})).is_success
    assert world.post(("/ai/desk/c/stop", None)).status_code == 404
    assert world.rest.client.post("/a2a/desk/tasks/x:cancel", headers={"A2A-Version": "1.0"}).status_code == 404
    others: list[tuple[str, Any]] = [("/a2a/stop", {}), ("/ai/stop", {})]
    for refused in (CREATIONS["task"], *others):
        assert world.post(refused).status_code == 503
    world.caller = replace(world.caller, tenant=None, scopes=ALL_SCOPES)
    erasure = {"reason": "asked", "forks": "keep"}
    assert world.post(("/v1/operations/erasures/acme:unknown", erasure)).status_code != 503


def test_open_tasks_are_counted_for_all_protocols_together(world: LimitedWorld) -> None:
    world.limit(open_tasks=1)
    assert world.post(CREATIONS["task"]).status_code == 201
    before = world.tasks()
    for request in CREATIONS.values():
        check_refusal(world.post(request), "open_tasks")
    assert world.tasks() == before


@pytest.mark.parametrize("name", ["task", "response", "chat", "agent"])
def test_a_repetition_of_a_creation_is_not_refused(world: LimitedWorld, name: str) -> None:
    key = {"Idempotency-Key": "one"}
    assert world.post(CREATIONS[name], **key).is_success
    created = world.tasks()
    world.use_up()
    assert world.post(CREATIONS[name], **key).is_success
    assert world.tasks() == created


def test_a_caller_without_a_free_stream_gets_no_answer_that_waits(
    world: LimitedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.tasks()
    world.occupy_stream(monkeypatch)
    for path, body in (COMPLETION, (RESPONSES, {"model": "desk", "input": "go"})):
        check_refusal(world.post((path, body)), "open_streams")
        check_refusal(world.post((path, body | {"stream": True})), "open_streams")
    assert world.tasks() == before, "nothing is accepted before the stream is"


def test_a_caller_without_a_free_stream_cannot_follow_or_poll(
    world: LimitedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.rest.client.get("/v1/ai/chats/ended/delta").json()["data"]
    created = world.post(CREATIONS["chat"]).json()["data"]
    delta = f"/v1/ai/chats/{created['session_id']}/delta"
    world.occupy_stream(monkeypatch)
    check_refusal(world.rest.client.get(f"{RESPONSES}/resp_ended_0?stream=true"), "open_streams")
    check_refusal(world.rest.client.get(f"{delta}?next_token={created['continuation_token']}"), "open_streams")
    assert world.rest.client.get(delta).status_code == 200, "a poll with news does not wait"
    ended = world.rest.client.get(f"/v1/ai/chats/ended/delta?next_token={first['continuation_token']}")
    assert ended.status_code == 200, "a poll of a session at rest does not wait"


def test_no_route_reads_more_than_the_largest_body(world: LimitedWorld) -> None:
    for path, _ in (*CREATIONS.values(), *MESSAGES.values(), COMPLETION):
        answer = world.rest.client.post(path, content=iter([b"[" * 1500, b"[" * 1500]))
        expected = 400 if path.startswith("/v1/ai/") else 413
        assert (answer.status_code, "longer than 2000 bytes" in answer.text) == (expected, True), path
