"""Sessions in the form of roboto.ai have its names, roles and statuses."""

import json
from typing import Any, get_args

import pytest

from roboco.domain.history.step import TaskStep
from roboco.domain.session.agent_session import (
    AgentMessage,
    SessionForm,
    agent_delta,
    agent_session,
    is_roboto,
)
from roboco.domain.session.goal import goals_of
from roboco.domain.session.session import Lineage, MessageStatus, Session, SessionDelta, messages_of
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from tests.support.document_classes import AgentSessionGoalRecord as LiteralGoal
from tests.unit.domain.steps import START, Line, artifact, call, failed, result, steps_of, text

LINES: tuple[Line, ...] = (
    ("user", "go", {"goals": [{"name": "plan", "description": "a plan", "schema": {}}]}),
    ("one", [text("look"), call("tc_1", "look", {"a": 1}), call("tc_2", "find"), call("tc_3", "list")]),
    ("tool_executor", [result("tc_1", {"b": 2}), artifact("a.txt"), result("tc_2", error="none"), result("tc_3", [1])]),
    ("orchestrator", [failed("limit", "too long")]),
)
STEPS = steps_of(*LINES)


def session_of(steps: list[TaskStep], status: TaskStatus = TaskStatus.RUNNING, task_id: str = "shop:t1") -> Session:
    return Session(
        task_id=task_id,
        status=status,
        reason="why",
        title="",
        model_profile="standard",
        created=START,
        messages=list(messages_of(steps)),
        goals=goals_of(steps),
        lineage=Lineage(forked_from_task_id="t0", forked_from_seq=3),
        continuation_token="a.1.2.3.0",
    )


def test_agent_session_names_are_those_of_document_003() -> None:
    record = json.loads(agent_session(session_of(STEPS)).model_dump_json())
    assert [record.pop("messages") != [], record.pop("goals") != []] == [True, True]
    assert record == {
        "session_id": "shop:t1",
        "chat_id": "shop:t1",
        "org_id": "shop",
        "created_by": "user",
        "created": "2026-01-02T03:04:05Z",
        "status": "roboto_turn",
        "title": None,
        "model_profile": "standard",
        "forked_from_session_id": "t0",
        "forked_from_message_sequence_num": 3,
        "continuation_token": "a.1.2.3.0",
        "task_status": "running",
        "reason": "why",
    }
    assert agent_session(session_of(STEPS, task_id="t1")).org_id == ""


def test_agent_session_messages_have_their_content_and_role() -> None:
    user, asked, answered, ended = json.loads(agent_session(session_of(STEPS)).model_dump_json())["messages"]
    assert [one["role"] for one in (user, asked, answered, ended)] == ["user", "assistant", "roboto", "roboto"]
    assert [one["status"] for one in (user, asked, answered, ended)] == ["completed"] * 3 + ["failed"]
    assert asked["created"] == "2026-01-02T03:04:06Z"
    back: dict[str, Any] = {"content_type": "tool_result", "runtime_ms": 0, "status": "success"}
    assert answered["content"] == [
        back | {"tool_name": "look", "tool_use_id": "tc_1", "raw_response": {"b": 2}},
        {"content_type": "text", "text": "[file file://artifacts/a.txt, text/plain, 0 bytes]\n"},
        back | {"tool_name": "find", "tool_use_id": "tc_2", "status": "error", "raw_response": {"error": "none"}},
        back | {"tool_name": "list", "tool_use_id": "tc_3", "raw_response": {"result": [1]}},
    ]
    assert ended["content"] == [{"content_type": "error", "error_message": "too long", "error_code": "limit"}]


@pytest.mark.parametrize(
    ("line", "errors"),
    [
        (("one", "half a", {"interrupted": True}), [("interrupted", "The user interrupted the agent.")]),
        (("orchestrator", [failed("stopped", "stopped by the user")]), [("stopped", "stopped by the user")]),
        (("one", "all of it"), []),
    ],
)
def test_agent_session_cancelled_message_holds_an_error(line: Line, errors: list[tuple[str, str]]) -> None:
    [message] = agent_session(session_of(steps_of(line))).messages
    found = [(part.error_code, part.error_message) for part in message.content if part.content_type == "error"]
    assert found == errors
    assert message.is_unsuccessful() == bool(errors)


def test_agent_session_status_names_the_next_actor() -> None:
    turns = {
        "roboto_turn": ["queued", "running"],
        "user_turn": ["approval", "paused", "user_turn", "completed", "failed", "cancelled"],
        "client_tool_turn": ["client_tool_turn"],
        "goals_failed": ["goals_failed"],
    }
    for turn, status in ((turn, TaskStatus(name)) for turn, names in turns.items() for name in names):
        record = agent_session(session_of(STEPS, status))
        assert (record.status, record.task_status) == (turn, status)
        delta = agent_delta(SessionDelta(continuation_token="x", status=status))
        assert (delta.status, delta.task_status) == (turn, status)


def test_goals_are_records_that_document_003_reads() -> None:
    gone = steps_of(*LINES, ("orchestrator", [failed("goals")]))
    for record in (
        agent_session(session_of(gone)),
        agent_delta(SessionDelta(continuation_token="x", goals=goals_of(gone))),
    ):
        [goal] = record.goals or []
        read = LiteralGoal.model_validate_json(goal.model_dump_json())
        assert (read.goal_type, read.status, read.message_sequence_num) == ("plan", "failed", 0)
        assert read.goal_data == {"goal_type": "plan", "description": "a plan"}
        assert (read.created, read.concluded_at) == (gone[0].created_at, gone[-1].created_at)


def test_messages_and_statuses_have_the_methods_of_document_003() -> None:
    message = AgentMessage.text("hi")
    assert (message.role, message.status, message.content[0].content_type) == ("user", "not_started", "text")
    assert [status for status in MessageStatus if status.is_terminal()] == ["completed", "failed", "cancelled"]
    messages = {status: message.model_copy(update={"status": status}) for status in MessageStatus}
    assert [status for status, message in messages.items() if message.is_complete()] == ["completed"]
    assert [status for status, message in messages.items() if message.is_unsuccessful()] == ["failed", "cancelled"]


def test_agent_delta_keeps_indexes_and_the_rewind() -> None:
    session = session_of(STEPS)
    given = SessionDelta(continuation_token="b", messages_by_idx={3: session.messages[3]}, rewind_to=3, title="A title")
    delta = agent_delta(given)
    assert delta.messages_by_idx == {3: agent_session(session).messages[3]}
    assert (delta.continuation_token, delta.rewind_to, delta.title) == ("b", 3, "A title")
    assert (delta.status, delta.task_status, delta.goals) == (None, None, None)


def test_form_of_another_name_is_refused() -> None:
    assert [is_roboto(form) for form in get_args(SessionForm)] == [False, True, True]
    with pytest.raises(UsageError, match=r"form: must be one of 'roboco', 'roboto', '003' \(found 'robot'\)"):
        is_roboto("robot")  # type: ignore[arg-type]
