"""TaskResult: its fields from summary and history, and the statuses that raise."""

import pickle
from typing import Any

import pytest

from roboco.client.task_result import TaskResult, result_of
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.domain.usage import Usage
from roboco.errors import TaskFailed
from tests.unit.domain.steps import START, artifact, call, result, steps_of, text

GOAL = {"name": "booking", "description": "what was booked", "schema": {"type": "object"}}
STEPS = steps_of(
    ("user", [text("Book."), artifact("menu.pdf")], {"goals": [GOAL]}),
    ("one", [text("I do."), call("c1", "achieve_booking", {"time": "8"})]),
    ("tool_executor", [result("c1", "ok"), artifact("plan.md"), artifact("menu.pdf")]),
    ("one", [text("Done.")]),
    ("user", [text("Thanks.")]),
)


def result_with(status: TaskStatus = TaskStatus.COMPLETED, **changes: Any) -> TaskResult:
    summary = TaskSummary(task_id="t1", team="desk", status=status, created_at=START, updated_at=START, **changes)
    return result_of(summary, STEPS)


def test_result_holds_text_goals_and_files_of_the_history() -> None:
    found = result_with()
    assert found.text == "Done."
    assert [(goal.name, goal.status, goal.outcome) for goal in found.goals] == [("booking", "achieved", {"time": "8"})]
    assert [file.name for file in found.files] == ["menu.pdf", "plan.md"]


def test_result_holds_the_usage_of_the_summary() -> None:
    used: dict[str, Any] = {
        "agents": {"one": Usage(steps=2, seconds=1.25, calls=1)},
        "tools": {"add": Usage(calls=1, seconds=0.5)},
        "steps": 5,
        "tokens_in": 10,
        "tokens_out": 7,
        "cost": 0.25,
    }
    found = result_with(**used)
    assert found.usage == Usage(steps=5, tokens_in=10, tokens_out=7, seconds=1.75, calls=1, cost=0.25)
    assert found.cost == 0.25


@pytest.mark.parametrize("status", [one for one in TaskStatus if one.ended or one.waiting])
def test_result_that_is_no_answer_raises_reason_and_remedy(status: TaskStatus) -> None:
    if status in (TaskStatus.COMPLETED, TaskStatus.USER_TURN):
        return
    with pytest.raises(TaskFailed) as raised:
        result_with(status, reason="the model is away").raise_for_status()
    message = str(pickle.loads(pickle.dumps(raised.value)))
    assert message.startswith(f"task t1 is {status}: the model is away; ")
    assert "Task" in message
    assert message.endswith("(roboco why t1)")
