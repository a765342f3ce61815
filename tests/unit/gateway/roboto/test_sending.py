"""Messages of roboto.ai's client: a repeated request is one message, and another one is not taken for it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from roboco.client.session import SessionPoll
from roboco.client.task import Task
from roboco.domain.history.part import TextPart, ToolCall, ToolCallPart
from roboco.domain.history.step import USER, TaskStep
from roboco.domain.session.session import SessionDelta
from roboco.domain.status import TaskStatus
from roboco.errors import NotFound
from roboco.gateway.problem import Problem
from roboco.gateway.roboto.requests import SendRequest, ToolResultsRequest
from roboco.gateway.roboto.sending import REPEAT_SECONDS, answer_tools, item_id_at, send_message, sender_prefix

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TASK = "task_1"
TOOL = {"name": "client_old", "description": "d", "input_schema": {"type": "object"}}


@dataclass
class StubTask:
    """A task with a history and a status, which records what it accepts."""

    steps: list[TaskStep] = field(default_factory=list)
    status: TaskStatus = TaskStatus.USER_TURN
    continues: bool = False
    stored: tuple[str, ...] = ()
    sent: list[dict[str, Any]] = field(default_factory=list)
    answers: list[tuple[Any, ...]] = field(default_factory=list)
    task_id: str = TASK

    def history(self) -> list[TaskStep]:
        return self.steps

    def poll(self, token: str) -> SessionPoll:
        return SessionPoll(SessionDelta(continuation_token=token), self.status, self.continues)

    def receipt(self, item_id: str) -> None:
        if item_id not in self.stored:
            raise NotFound(item_id)

    def send(self, message: str, **options: Any) -> None:
        self.sent.append({"message": message, **options})

    def answer(self, call_id: str, result: Any = None, **options: Any) -> None:
        self.answers.append((call_id, result, options))


def request(text: str | None, **fields: Any) -> SendRequest:
    message = None if text is None else {"role": "user", "content": [{"text": text}]}
    return SendRequest.model_validate({"message": message, **fields})


def user_step(seq: int, text: str, item_id: str = "x", age: float = 0.0, **metadata: Any) -> TaskStep:
    created = NOW - timedelta(seconds=age)
    known = {"item_id": item_id} | metadata
    return TaskStep(seq=seq, agent_name=USER, parts=(TextPart(text=text),), created_at=created, metadata=known)


def agent_step(seq: int, text: str = "answer", *calls: ToolCall) -> TaskStep:
    parts = (TextPart(text=text), *(ToolCallPart(tool_call=call) for call in calls))
    return TaskStep(seq=seq, agent_name="helper", parts=parts, created_at=NOW)


def send(task: StubTask, sent: SendRequest, by: str = "key:a") -> None:
    send_message(cast(Task, task), by, sent, NOW)


def applied(by: str = "key:a", age: float = 0.0, index: int = 2, seq: int = 2) -> list[TaskStep]:
    """Return a history whose last message of the user is "more", sent at this index and applied at this position."""
    item_id = item_id_at(TASK, by, request("more"), index)
    return [user_step(0, "go"), agent_step(1), user_step(seq, "more", item_id, age)]


def test_a_message_has_the_id_of_its_sender_and_index() -> None:
    task = StubTask([user_step(0, "go"), agent_step(1)])
    send(task, request("more"))
    assert [sent["item_id"] for sent in task.sent] == [item_id_at(TASK, "key:a", request("more"), 2)]
    assert task.sent[0]["item_id"].startswith(sender_prefix("key:a"))
    assert not task.sent[0]["item_id"].startswith(sender_prefix("key:b"))


@pytest.mark.parametrize("status", [TaskStatus.RUNNING, TaskStatus.QUEUED, TaskStatus.APPROVAL, TaskStatus.PAUSED])
def test_a_repetition_while_the_turn_runs_is_the_same_message(status: TaskStatus) -> None:
    task = StubTask(applied(age=100), status)
    send(task, request("more"))
    assert task.sent == []


def test_the_same_text_later_is_another_message() -> None:
    task = StubTask([*applied(age=REPEAT_SECONDS + 1), agent_step(3)])
    send(task, request("more"))
    assert len(task.sent) == 1


@pytest.mark.parametrize("other", ["less", "more "])
def test_another_text_is_another_message(other: str) -> None:
    task = StubTask([*applied(), agent_step(3)])
    send(task, request(other))
    assert len(task.sent) == 1


def test_a_message_that_is_stored_and_not_accepted_is_completed() -> None:
    steps = [user_step(0, "go"), agent_step(1)]
    item_id = item_id_at(TASK, "key:a", request("more"), 2)
    task = StubTask(steps, continues=True, stored=(item_id,))
    send(task, request("more"))
    assert [sent["item_id"] for sent in task.sent] == [item_id]


@pytest.mark.parametrize(
    ("status", "continues"),
    [
        *((status, False) for status in (TaskStatus.RUNNING, TaskStatus.APPROVAL, TaskStatus.PAUSED)),
        (TaskStatus.USER_TURN, True),
        (TaskStatus.CLIENT_TOOL_TURN, False),
    ],
)
def test_a_message_out_of_turn_is_refused(status: TaskStatus, continues: bool) -> None:
    task = StubTask([user_step(0, "go"), agent_step(1)], status, continues)
    with pytest.raises(Problem) as refused:
        send(task, request("more"))
    assert (refused.value.code, task.sent) == ("busy", [])


def test_a_fork_that_no_worker_has_seen_takes_a_message_after_an_answer() -> None:
    task = StubTask([user_step(0, "go"), agent_step(1)], TaskStatus.QUEUED)
    send(task, request("else"))
    assert len(task.sent) == 1


def test_goals_alone_make_a_message_that_the_client_does_not_have() -> None:
    task = StubTask([user_step(0, "go"), agent_step(1)])
    send(task, request(None, goals=[{"goal_type": "dataset_summary", "dataset_id": "ds_1"}]))
    assert task.sent[0]["message"] == "Summarize the dataset ds_1."
    assert not task.sent[0]["item_id"].startswith(sender_prefix("key:a"))


@pytest.mark.parametrize(
    "fields",
    [
        {"message": None},
        {"message": {"role": "assistant", "content": [{"text": "a"}]}},
        {"message": {"role": "user", "content": [{"text": "a"}]}, "invoke_skills": [{"skill_id": "s"}]},
    ],
)
def test_a_wrong_message_is_refused(fields: dict[str, Any]) -> None:
    task = StubTask([user_step(0, "go"), agent_step(1)])
    with pytest.raises(Problem):
        send(task, SendRequest.model_validate(fields))
    assert task.sent == []


def test_client_tools_are_added_to_the_declared_ones() -> None:
    old = TOOL | {"name": "client_new", "description": "old"}
    task = StubTask([user_step(0, "go", client_tools=[TOOL, old]), agent_step(1)])
    send(task, request("more", client_tools=[{"name": "client_new", "description": "", "input_schema": {}}]))
    tools = task.sent[0]["client_tools"]
    assert [(tool["name"], tool["description"]) for tool in tools] == [
        ("client_old", "d"),
        ("client_new", "client_new"),
    ]


def test_results_of_tools_are_answers() -> None:
    task = StubTask([user_step(0, "go", client_tools=[TOOL])])
    results = [
        {"tool_use_id": "tc_1", "tool_name": "t", "runtime_ms": 3, "status": "success", "output": {"n": 1}},
        {"tool_use_id": "tc_2", "tool_name": "t", "runtime_ms": 4, "status": "error", "output": {"error": "no"}},
        {"tool_use_id": "tc_3", "tool_name": "t", "runtime_ms": 5, "status": "declined", "output": None},
    ]
    body = {"tool_results": results, "client_tools": [TOOL]}
    answer_tools(cast(Task, task), "key:a", ToolResultsRequest.model_validate(body))
    assert [(call_id, result, options["error"]) for call_id, result, options in task.answers] == [
        ("tc_1", {"n": 1}, None),
        ("tc_2", None, "no"),
        ("tc_3", None, "{}"),
    ]
    assert all(options["by"] == "key:a" for _, _, options in task.answers)


def test_new_tools_are_not_declared_with_results() -> None:
    task = StubTask([user_step(0, "go")])
    body = {"tool_results": [{"tool_use_id": "tc_1", "status": "success"}], "client_tools": [TOOL]}
    with pytest.raises(Problem, match="client_old cannot be declared here"):
        answer_tools(cast(Task, task), "key:a", ToolResultsRequest.model_validate(body))


def test_no_results_are_refused() -> None:
    """A client without the tool would send them again as fast as it can."""
    with pytest.raises(ValueError, match="at least 1 item"):
        ToolResultsRequest.model_validate({"tool_results": []})
