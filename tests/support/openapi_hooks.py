"""Hooks of schemathesis: valid requests that name what exists, and the refusals of valid ones that are meant.

The document cannot express what a validator of Python checks, nor that an Idempotency-Key was used.
"""

import os
from itertools import count
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

HELLO = {"role": "user", "content": "hello"}
BODIES: dict[str, dict[str, Any]] = {
    "/openai/v1/chat/completions": {"model": "desk", "messages": [HELLO]},
    "/openai/v1/responses": {"model": "desk", "input": "hello", "stream": True},
    "/ai/{team}": {"messages": [HELLO | {"id": "m1", "parts": [{"type": "text", "text": "hello"}]}], "id": "c1"},
    "/agui/{team}": {"messages": [HELLO | {"id": "m1"}], "runId": "r1", "threadId": "c1"}
    | {"tools": [], "context": [], "state": {}, "forwardedProps": {}},
    "/v1/operations/switches/off": {"target": "tool:unknown", "reason": "a test"},
    "/v1/operations/bulk": {"control": "stop", "tenant": "acme"},
}
"""Bodies that are accepted, by path. Those of operations replace each other one, which may stop all work."""
TASKS = {"/calls/": "waits", "/erasures": "gone", "/events": "ended", "/stop": "ended", "/retry": "ended"}
"""The tasks of paths with these words. The others concern `ended`, or `talk`, which waits for a message."""
NAMES = {"team": "desk", "chat": "c1", "thread": "c1", "response_id": "resp_talk_0", "call_id": os.environ["CALL_ID"]}
_numbers = count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Let three of four valid requests name what exists. None waits."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    number, path = next(_numbers), case.path
    if path in BODIES and (number % 8 == 1 or "operations" in path):
        case.body = BODIES[path]
    if number % 4:
        task_id = next((task for word, task in TASKS.items() if word in path), ("ended", "talk")[number % 2])
        name = "note.txt" if "{task_id}" in path else "conv_talk" if "conversations" in path else "desk"
        known = NAMES | {"task_id": task_id, "name": name}
        case.path_parameters |= {name: known[name] for name in case.path_parameters if name in known}
    if "wait" in (case.query or {}):
        case.query["wait"] = 0


@schemathesis.check
def validators_alone_refuse_valid_data(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """Fail if the schema allows a body that the model of the request refuses. Those of AG-UI are its own."""
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if response.status_code == 422 and is_valid and not case.path.startswith("/agui/"):
        problem = response.json()
        mistakes = [one["problem"] for one in problem.get("mistakes", [])]
        by_validator = bool(mistakes) and all(one.startswith("Value error") for one in mistakes)
        assert by_validator or problem["code"] == "conflict", response.text
