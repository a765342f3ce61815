"""Journeys of a stack: five teams, the scripted model's answers, and the histories that must result."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from roboco import Task, TaskStep, Team, parse_team
from roboco.domain.history.part import ArtifactPart, ErrorPart, TextPart, ToolCallPart, ToolResultPart
from roboco.domain.history.step import verify_chain
from roboco.lab.transcript import Transcript
from tests.support.servers.model_server import Reply, Request

DELTA = "text_part_delta"
HistoryShape = list[tuple[str, list[Any]]]
"""A history without ids, times and digests: the agent of each step, and the content of its parts."""


@dataclass(frozen=True)
class StackJourney:
    """A team with a prompt. `sent` are the user's messages in turns of the user, each with the agent to answer."""

    name: str
    team: Team
    prompt: str
    expected: HistoryShape
    sent: tuple[tuple[str, str | None], ...] = ()
    final_status: str = "completed"
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the submission."""

    def run_to_end(self, task: Task, timeout: float = 60) -> str:
        """Wait for the task, send the user's messages, and return its last status."""
        for message, agent in self.sent:
            assert task.result(timeout).status == "user_turn"
            task.send(message, agent)
            wait_for_message_step(task, message)
        return str(task.result(timeout).status)

    def check(self, task: Task, transcript: Transcript) -> None:
        """Assert the expected history, and that the follower with this transcript has received all of it."""
        history = task.history()
        assert shape(history) == self.expected
        assert verify_chain(task._engine.workspace.histories.lines(task.task_id)) == len(history)
        assert transcript.finals == list(range(len(history)))
        assert transcript.texts == {step.step_id: step.text for step in history if step.by_agent and step.text}


def follow(task: Task, meanwhile: Callable[[], object] | None = None) -> Transcript:
    """Return the transcript of a follower from the start to the end. Call `meanwhile` after its fifth piece of text."""
    transcript = Transcript()
    for item in task.stream():
        transcript.take(item)
        if meanwhile is not None and item.type == DELTA and transcript.types.count(DELTA) == 5:
            meanwhile()
    assert meanwhile is None or transcript.types.count(DELTA) >= 5, "the follower has not come so far"
    return transcript


def wait_for_message_step(task: Task, message: str) -> None:
    """Wait until the message is a step, so that `result` does not return the wait before it."""
    for item in task.stream():
        if item.type == "event_user_message" and getattr(item.data, "text", "") == message:
            return


def shape(steps: Iterator[TaskStep] | list[TaskStep]) -> HistoryShape:
    """Return the steps without the fields that differ between two runs."""
    return [(step.agent_name, [_content_of(part) for part in step.parts]) for step in steps]


def _content_of(part: object) -> Any:
    match part:
        case TextPart():
            return part.text
        case ToolCallPart():
            return (part.tool_call.tool_name, part.tool_call.args)
        case ToolResultPart():
            return (
                part.tool_result.error
                if part.tool_result.is_error
                else {"result": _content_of_result(part.tool_result.result)}
            )
        case ArtifactPart():
            return part.artifact.uri
        case ErrorPart():
            return f"{part.code}: {part.message}"
        case _:
            raise AssertionError(part)


def _content_of_result(result: Any) -> Any:
    match result:
        case {"uri": uri}:
            return uri
        case [{"seq": seq}, *_]:
            return f"found step {seq}"
        case _:
            return result


def answer(request: Request) -> Reply:
    """Return the model's reply, a function of the request alone."""
    role = request.system.split()[0]
    if "response_format" in request.body:
        return Reply(text=json.dumps(PLACE, indent=1), interval=CHUNK_INTERVAL)
    return {
        "writer": _writer,
        "critic": _critic,
        "planner": _planner,
        "solver": _solver,
    }.get(role, _plain)(request)


def answer_slowly(request: Request, interval: float = 0.03) -> Reply:
    """Return the same reply with slow chunks, so that a fault falls between them."""
    return replace(answer(request), interval=interval)


PLACE = {"city": "Bonn", "rivers": ["Rhine", "Sieg"], "degrees": 21}
"""The answer in a form."""
PLACE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "rivers": {"type": "array", "items": {"type": "string"}},
        "degrees": {"type": "integer"},
    },
    "required": list(PLACE),
    "additionalProperties": False,
}
CHUNK_INTERVAL = 0.005
"""Seconds between two chunks of a reply."""


def _writer(request: Request) -> Reply:
    return Reply(text=f"Draft {_own_turns(request) + 1}: waves come and go at night.", interval=CHUNK_INTERVAL)


def _critic(request: Request) -> Reply:
    drafts = sum("[writer]" in str(message.get("content")) for message in request.messages)
    return Reply(text="APPROVED" if drafts >= 2 else "Too short, write it again.", interval=CHUNK_INTERVAL)


def _plain(request: Request) -> Reply:
    role = request.system.split()[0]
    return Reply(text=f"{role} answers: {request.last_user}", interval=CHUNK_INTERVAL)


def _planner(request: Request) -> Reply:
    """Call three tools side by side, then hand off."""
    if _own_turns(request) == 0:
        calls: list[tuple[str, dict[str, Any] | str]] = [
            ("slow_add", {"a": 1, "b": 2, "seconds": 0.4}),
            ("slow_add", {"a": 3, "b": 4, "seconds": 0.2}),
            ("artifact_write", {"name": "plan.md", "content": "add, then solve"}),
        ]
        return Reply(text="I add first.", tool_calls=calls, interval=CHUNK_INTERVAL)
    return Reply(
        tool_calls=[("handoff", {"destination_agent": "solver", "reason": "the sums are there"})],
        interval=CHUNK_INTERVAL,
    )


def _solver(request: Request) -> Reply:
    if _own_turns(request) == 0:
        return Reply(
            text="", tool_calls=[("memory_search", {"query": "slow_add", "limit": 1})], interval=CHUNK_INTERVAL
        )
    return Reply(text="The sums are 3 and 7.", interval=CHUNK_INTERVAL)


def _own_turns(request: Request) -> int:
    return request.count("assistant")


def _agents(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "prompt": f"{name} of team {{{{ team.name }}}}"} | more.get(name, {}) for name in names]


GRAPH = StackJourney(
    "graph",
    parse_team(
        {
            "name": "writer-critic",
            "collaboration_model": {
                "type": "graph",
                "initial_agent": "writer",
                "routing_graph": {
                    "writer": ["critic"],
                    "critic": [
                        {"to": "END", "when": {"contains": "APPROVED"}},
                        {"to": "writer", "max_times": 3},
                        "USER",
                    ],
                },
            },
            "agents": _agents("writer", "critic"),
        }
    ),
    "Write about the sea.",
    [
        ("user", ["Write about the sea."]),
        ("writer", ["Draft 1: waves come and go at night."]),
        ("critic", ["Too short, write it again."]),
        ("writer", ["Draft 2: waves come and go at night."]),
        ("critic", ["APPROVED"]),
    ],
)

SEQUENTIAL = StackJourney(
    "sequential",
    parse_team({"name": "line", "agents": _agents("first", "second", "third")}),
    "Go.",
    [
        ("user", ["Go."]),
        ("first", ["first answers: Go."]),
        ("second", ["second answers: [first] first answers: Go."]),
        ("third", ["third answers: [second] second answers: [first] first answers: Go."]),
    ],
)

MANUAL = StackJourney(
    "manual",
    parse_team({"name": "desk", "collaboration_model": {"type": "manual"}, "agents": _agents("ann", "ben")}),
    "Hello.",
    [
        ("user", ["Hello."]),
        ("ann", ["ann answers: Hello."]),
        ("user", ["And you?"]),
        ("ben", ["ben answers: And you?"]),
        ("user", ["Thanks."]),
        ("ben", ["ben answers: Thanks."]),
    ],
    sent=(("And you?", "ben"), ("Thanks.", None)),
    final_status="user_turn",
)


def _slow_add(effect: str) -> dict[str, Any]:
    return {"name": "slow_add", "function": "tests.support.tools_for_agents:slow_add", "effect": effect, "timeout": 20}


FUNCTIONS = StackJourney(
    "functions",
    parse_team(
        {
            "name": "desk",
            "collaboration_model": {"type": "graph", "routing_graph": {"triage": ["USER"], "clerk": ["END"]}},
            "agents": [
                {"name": "triage", "function": "tests.support.tools_for_agents:triage", "effect": "pure"}
                | {"handoffs": ["clerk"]},
                *_agents("clerk"),
            ],
        }
    ),
    "Sort this.",
    [
        ("user", ["Sort this."]),
        ("triage", [("triage", {})]),
        ("tool_executor", [{"result": "answered"}]),
        ("triage", ["heard Sort this.", ("handoff", {"destination_agent": "clerk", "reason": ""})]),
        ("tool_executor", [{"result": "the work is handed off to clerk"}]),
        ("clerk", ["clerk answers: [handoff answered] the work is handed off to clerk"]),
    ],
)
PARALLEL = StackJourney(
    "parallel",
    parse_team(
        {
            "name": "sums",
            "collaboration_model": {
                "type": "graph",
                "routing_graph": {"planner": ["solver"], "solver": ["END"]},
            },
            "agents": _agents(
                "planner",
                "solver",
                planner={"tools": ["slow_add", "artifact_write"], "handoffs": ["solver"]},
                solver={"tools": ["memory_search"]},
            ),
            "tools": [_slow_add("pure")],
        }
    ),
    "Add some numbers.",
    [
        ("user", ["Add some numbers."]),
        (
            "planner",
            [
                "I add first.",
                ("slow_add", {"a": 1, "b": 2, "seconds": 0.4}),
                ("slow_add", {"a": 3, "b": 4, "seconds": 0.2}),
                ("artifact_write", {"name": "plan.md", "content": "add, then solve"}),
            ],
        ),
        (
            "tool_executor",
            [
                {"result": 3},
                {"result": 7},
                {"result": "file://artifacts/plan.md"},
                "file://artifacts/plan.md",
            ],
        ),
        ("planner", [("handoff", {"destination_agent": "solver", "reason": "the sums are there"})]),
        ("tool_executor", [{"result": "the work is handed off to solver"}]),
        ("solver", [("memory_search", {"query": "slow_add", "limit": 1})]),
        ("tool_executor", [{"result": "found step 1"}]),
        ("solver", ["The sums are 3 and 7."]),
    ],
)

FORMED = StackJourney(
    "formed",
    parse_team({"name": "formed", "agents": _agents("guide")}),
    "Where is it?",
    [("user", ["Where is it?"]), ("guide", [json.dumps(PLACE, indent=1)])],
    options={"answer_form": {"schema": PLACE_SCHEMA}},
)

JOURNEYS = (GRAPH, SEQUENTIAL, MANUAL, PARALLEL)
