"""A promise that is broken is found: in doctored histories, streams, executions and decisions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from roboco import parse_team
from roboco.domain.history.part import TextPart, ToolCall, ToolCallPart, ToolResult, ToolResultPart
from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.lab.drill.executions import Execution
from roboco.lab.drill.promises import PROMISES, ObservedRun, ObservedTask, judge
from roboco.lab.transcript import Transcript

TEAM = parse_team(
    {
        "name": "shop",
        "agents": [{"name": "clerk", "prompt": "clerk", "tools": ["pay"], "context": {"steps": 2}}],
        "tools": [{"name": "pay", "function": "shop:pay"}],
    }
)
CALL = ToolCall(id="tc_1", tool_name="pay", args={})
PAID = Execution("pay", "task", "tc_1", "task/tc_1")


def step(seq: int, agent: str, *parts: Any, **metadata: Any) -> TaskStep:
    return TaskStep(step_id=f"step_{seq}", seq=seq, agent_name=agent, parts=parts, metadata=metadata)


def history() -> list[TaskStep]:
    result = ToolResult(tool_call_id="tc_1", result="paid", runtime_ms=1)
    return [
        step(0, "user", TextPart(text="Pay.")),
        step(1, "clerk", TextPart(text="I pay."), ToolCallPart(tool_call=CALL)),
        step(2, "tool_executor", ToolResultPart(tool_result=result)),
        step(3, "clerk", TextPart(text="Paid."), context={"included": [[0, 2]]}),
    ]


def transcript() -> Transcript:
    return Transcript(texts={"step_1": "I pay.", "step_3": "Paid."}, finals=[0, 1, 2, 3])


def good_task() -> ObservedTask:
    return ObservedTask(
        "task",
        TEAM,
        TaskStatus.COMPLETED,
        steps=history(),
        steps_before=["step_0", "step_1"],
        live=transcript(),
        late=transcript(),
    )


def good_run() -> ObservedRun:
    return ObservedRun(
        [good_task()],
        90,
        executions=[PAID],
        irreversible=frozenset({"pay"}),
        redis_lost=True,
        interrupted=True,
        closed_after=0.1,
    )


def broken(run: ObservedRun) -> set[str]:
    return {promise for promise, wrong in judge(run).items() if wrong}


def test_a_good_run_keeps_all_promises() -> None:
    assert judge(good_run()) == {promise: [] for promise in PROMISES}


def drop_step(task: ObservedTask) -> None:
    task.steps = [*task.steps[:1], *task.steps[2:]]


def double_step(task: ObservedTask) -> None:
    task.steps = [*task.steps, task.steps[3]]


def double_message(task: ObservedTask) -> None:
    task.steps = [step(n, "user", TextPart(text="x"), item_id="item") for n in range(2)]


def lose_result(task: ObservedTask) -> None:
    task.steps = [*task.steps[:2], step(2, "clerk", TextPart(text="Paid."))]


def stay_open(task: ObservedTask) -> None:
    task.status = None


def tear_live_stream(task: ObservedTask) -> None:
    task.live = Transcript(texts=transcript().texts, finals=[0, 1, 3])


def repeat_text(task: ObservedTask) -> None:
    task.late = Transcript(texts={"step_1": "I pay.I pay.", "step_3": "Paid."}, finals=[0, 1, 2, 3])


def keep_void_text(task: ObservedTask) -> None:
    task.live = Transcript(texts={**transcript().texts, "step_void": "void"}, finals=[0, 1, 2, 3])


def fail_reader(task: ObservedTask) -> None:
    task.live_error = "TransientError()"


def decide_otherwise(task: ObservedTask) -> None:
    task.wrong_decisions = ["step 3: recorded a, decided b"]


def break_chain(task: ObservedTask) -> None:
    task.chain_error = "step 1 was changed"


def swell_prompt(task: ObservedTask) -> None:
    task.steps = [*task.steps[:3], step(3, "clerk", TextPart(text="Paid."), context={"included": [[0, 6]]})]


def add_stranger(task: ObservedTask) -> None:
    task.steps = [*task.steps, step(4, "stranger", TextPart(text="hello"))]


@pytest.mark.parametrize(
    ("doctor", "promise"),
    [
        (drop_step, "P1"),
        (drop_step, "P3"),
        (double_step, "P1"),
        (double_message, "P1"),
        (stay_open, "P2"),
        (tear_live_stream, "P5"),
        (repeat_text, "P5"),
        (keep_void_text, "P5"),
        (fail_reader, "P5"),
        (lose_result, "P7"),
        (decide_otherwise, "P8"),
        (add_stranger, "P8"),
        (break_chain, "P9"),
        (swell_prompt, "P10"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_doctored_task_breaks_its_promise(doctor: Callable[[ObservedTask], None], promise: str) -> None:
    run = good_run()
    doctor(run.tasks[0])
    assert promise in broken(run)


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({"executions": [PAID, PAID]}, "P4"),
        ({"closed_after": None}, "P6"),
        ({"invalid_requests": ["messages[2] answers an unknown call"]}, "P7"),
        ({"executions": [replace(PAID, call_id="tc_9", key="task/tc_9")]}, "P8"),
        ({"executions": [replace(PAID, tool="refund")]}, "P8"),
    ],
)
def test_a_doctored_run_breaks_its_promise(changes: dict[str, Any], promise: str) -> None:
    assert promise in broken(replace(good_run(), **changes))
