"""explain: which agent acted and why, in words that need no knowledge of routing."""

from dataclasses import replace

import pytest

from roboco.domain.history.part import TextPart
from roboco.domain.recorded.explain import StepExplanation, current_status, explain
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from tests.unit.domain.recorded_tasks import RECORDED_TASKS, graph_task


def explain_step(name: str, seq: int) -> StepExplanation:
    """Return the explanation of this step."""
    [found] = explain(RECORDED_TASKS[name](), str(seq))
    return found


@pytest.mark.parametrize("name", RECORDED_TASKS)
def test_every_step_of_an_agent_is_explained(name: str) -> None:
    task = RECORDED_TASKS[name]()
    explanations = explain(task)
    assert [one.seq for one in explanations] == [step.seq for step in task.steps if step.by_agent]
    own = [one for one in explanations if one.seq >= task.first_decided]
    assert all(one.why and one.before and one.events and one.router for one in own)
    assert str(task.status) in current_status(task) or task.reason in current_status(task)
    for step in task.steps:
        assert explain(task, step.step_id) == explain(task, str(step.seq))
    assert tuple(found for one in explanations for found in explain(task, str(one.seq))) == explanations


def test_an_edge_at_its_max_times_does_not_apply() -> None:
    task = graph_task()
    closed = {"rule": "critic: no edge", "to": "USER", "candidates": ["critic[0] -> END", "critic[1] -> writer"]}
    step = task.steps[-1].model_copy(
        update={"seq": 7, "agent_name": "user", "metadata": {"routing": closed}, "parts": (TextPart(text="hm"),)}
    )
    team = task.team.model_copy(
        update={
            "collaboration_model": task.team.collaboration_model.model_validate(
                {
                    "type": "graph",
                    "routing_graph": {
                        "critic": [{"to": "END", "when": {"contains": "X"}}, {"to": "writer", "max_times": 2}]
                    },
                }
            )
        }
    )
    [explanation] = explain(replace(task, team=team, steps=(*task.steps, step)), "7")
    assert explanation.candidates[1].why == "did not apply: it was taken 2 times before, and max_times is 2"


@pytest.mark.parametrize(
    ("name", "seq", "why", "line"),
    [
        ("tools", 5, "lead handed the work over to it: done", "handoff returned"),
        ("answers", 3, "the tools that it had called returned", "a person did not approve pay"),
        ("answers", 5, "the work seemed to be done, but goals were still open: answer", "the agents were reminded"),
        ("interrupting", 3, "first was interrupted", "the user interrupted the work and said: “shorter”"),
        ("manual", 5, "the user named expert", "the user said to expert: “and you”"),
        ("delegating", 3, "the tools that it had called returned", "a sub-task ended"),
        ("a fork of another team", 1, "(in the task from which this one was forked)", "the user said"),
    ],
)
def test_the_cause_of_a_turn_is_explained(name: str, seq: int, why: str, line: str) -> None:
    explanation = explain_step(name, seq)
    assert why in explanation.why
    assert any(line in one for one in explanation.before), explanation.before


def test_current_status_names_the_next_action() -> None:
    def running_after(task: RecordedTask, steps: int) -> RecordedTask:
        return replace(task, steps=task.steps[:steps], status=TaskStatus.RUNNING, reason="")

    next_one = "it is being worked on (running); next: critic acts (graph: writer[0] -> critic)"
    assert current_status(running_after(graph_task(), 2)) == next_one
    assert current_status(running_after(RECORDED_TASKS["tools"](), 2)).endswith("next: tools run: add, add")
    assert current_status(running_after(RECORDED_TASKS["custom"](), 2)) == "it is being worked on (running)"
    deferred = replace(running_after(graph_task(), 2), reason="writer waits: model 'm' cannot be reached")
    assert current_status(deferred) == "it waits (running): writer waits: model 'm' cannot be reached"


@pytest.mark.parametrize(
    ("remote", "line"),
    [
        ({"id": "r1", "state": "canceled"}, "the remote task r1 was cancelled: canceled"),
        ({"id": "r1", "state": "running", "error": "no"}, "the remote task r1 may still run: no"),
        ({"id": "r1", "state": "running"}, "the remote task r1 may still run: no agents worker could cancel it"),
        ({"state": "unknown"}, "it is unknown whether the remote agent has a task: it may still run"),
    ],
)
def test_a_remote_task_that_outlives_its_turn_is_named(remote: dict[str, str], line: str) -> None:
    task = graph_task()
    last = task.steps[-1].model_copy(update={"metadata": {**task.steps[-1].metadata, "remote_task": remote}})
    ended = replace(task, steps=[*task.steps[:-1], last])
    assert current_status(ended).endswith(f"; {line}")
    assert explain(ended)[-1].events[-1] == line


def test_an_unknown_step_is_refused() -> None:
    for wrong in ("7", "-1", "step_of_nobody"):
        with pytest.raises(UsageError, match=r"the steps 0 to 6, those of agents are 1, 2, 3, 4, 5, 6"):
            explain(graph_task(), wrong)


def test_a_map_and_the_state_are_explained_in_their_own_words() -> None:
    mapped = [line for one in explain(RECORDED_TASKS["mapping"]()) for line in (*one.before, one.why, *one.events)]
    assert {"all sub-tasks of its map have ended", "a sub-task ended"} <= set(mapped)
    assert any("has a sub-task for each of" in line for line in mapped)
    called = [line for one in explain(RECORDED_TASKS["functions"]()) for line in one.before]
    assert {"the code of triage was called", "the state of the task changed: heard"} <= set(called)
