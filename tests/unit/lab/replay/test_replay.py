"""replay: compare each recorded decision of a history with the decision of a team."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.decision.action import AppendStep
from roboco.domain.decision.decide import decide
from roboco.domain.decision.route import Route
from roboco.domain.decision.situation import Situation
from roboco.domain.history.part import ErrorPart, TextPart
from roboco.domain.history.state import History, fold
from roboco.domain.history.step import ORCHESTRATOR, TaskStep
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from roboco.lab.replay.evidence import history_prefixes, recorded_results
from roboco.lab.replay.replay import ReplayStep, replay
from tests.support.memory_ports.controlled import CONTROLLED
from tests.support.memory_ports.journeys import CUSTOM, GRAPH, MANUAL, TOOLS, member
from tests.support.memory_ports.world import team_of
from tests.unit.domain.recorded_tasks import RECORDED_TASKS, graph_task, recorded_task, run_journey, run_to_limit


def change_team(team: Team, **fields: Any) -> Team:
    """Return the team with these fields replaced."""
    return validate_team(team.model_dump(mode="json", by_alias=True, exclude_none=True) | fields)


def differences(positions: tuple[ReplayStep, ...]) -> dict[int | None, str]:
    """Return the comparisons other than "same", by position."""
    return {position.seq: position.comparison for position in positions if position.comparison != "same"}


def with_step(
    task: RecordedTask, *, code: str | None = None, message: str = "why", seconds: float = 1.0
) -> RecordedTask:
    """Return the task with one more step of the orchestrator, `seconds` after its start: an error, or a text."""
    part = TextPart(text=message) if code is None else ErrorPart(code=code, message=message)
    step = task.steps[-1].model_copy(
        update={
            "step_id": "step_more",
            "seq": len(task.steps),
            "agent_name": ORCHESTRATOR,
            "parts": (part,),
            "metadata": {"limit": "writer"} if code == "limit" else {},
            "created_at": task.started_at.fromtimestamp(task.started_at.timestamp() + seconds, task.started_at.tzinfo),
        }
    )
    return replace(task, steps=(*task.steps, step), status=TaskStatus.FAILED, reason=message)


@pytest.mark.parametrize("name", RECORDED_TASKS)
def test_a_history_follows_from_its_team(name: str) -> None:
    task = RECORDED_TASKS[name]()
    positions = replay(task)
    assert differences(positions) == {}
    at_rest = task.status.ended or task.status.waiting
    assert len(positions) == len(task.steps) - task.first_decided + at_rest


def test_tool_results_are_supplied_only_on_request() -> None:
    chosen = [position.chosen for position in replay(RECORDED_TASKS["tools"]())]
    assert chosen[1] == "tools run: add, add, then 4 results, 2 of them errors"


@pytest.mark.parametrize("field", ["agent_name", "routing", "parts"])
def test_a_forged_step_is_found(field: str) -> None:
    task = graph_task()
    step = task.steps[4]
    forged: dict[str, TaskStep] = {
        "agent_name": step.model_copy(update={"agent_name": "writer"}),
        "routing": step.model_copy(update={"metadata": step.metadata | {"routing": {"rule": "a whim"}}}),
        "parts": step.model_copy(update={"parts": (TextPart(text="APPROVED"),)}),
    }
    steps = (*task.steps[:4], forged[field], *task.steps[5:])
    found = differences(replay(replace(task, steps=steps)))
    assert found[5 if field == "parts" else 4] == "differs"


def test_forged_metadata_is_found() -> None:
    task = RECORDED_TASKS["answers"]()
    forged = task.steps[6].model_copy(
        update={"metadata": task.steps[6].metadata | {"achieved_goals": {"answer": "tc_0"}}}
    )
    assert differences(replay(replace(task, steps=(*task.steps[:6], forged, *task.steps[7:])))) == {6: "differs"}


def test_results_of_closed_calls_are_not_supplied() -> None:
    task = RECORDED_TASKS["calls closed by an interruption"]()
    history = list(history_prefixes(task.steps))[1]
    situation, results = recorded_results(task.team, history, task.steps[2], task.steps[3])
    assert situation.interruption is not None
    assert [results[call.id].closed for call in task.steps[1].calls] == [False, True, True, True]


def test_a_forged_end_is_found() -> None:
    assert differences(replay(replace(graph_task(), reason="another"))) == {None: "differs"}
    assert differences(replay(replace(graph_task(), status=TaskStatus.USER_TURN))) == {None: "differs"}


@pytest.mark.parametrize("code", ["attempts", "limit", "router_lost", "weather", None])
def test_a_step_that_no_history_determines_depends_on_the_moment(code: str | None) -> None:
    task = graph_task()
    cut = replace(task, steps=task.steps[:3])
    [position] = [one for one in replay(with_step(cut, code=code, message="a note of a later release")) if one.seq == 3]
    assert position.comparison == "depends on the moment"
    assert "no history records" in position.note


def end_at_time_limit(task: RecordedTask, seconds: float) -> RecordedTask:
    """Return the task with three steps, ended by a limit of 30 seconds, `seconds` after its start."""
    team = change_team(task.team, limits={"max_seconds": 30})
    cut = replace(task, team=team, steps=task.steps[:3])
    action = decide(team, History(fold(cut.steps), tuple(cut.steps)), Situation(seconds=seconds))
    assert isinstance(action, AppendStep)
    ended = with_step(cut, code="limit", seconds=seconds)
    step = ended.steps[3].model_copy(update={"parts": action.parts, "metadata": action.metadata})
    return replace(ended, steps=(*cut.steps, step), reason=str(step.error and step.error.message))


def test_a_time_limit_depends_on_the_moment() -> None:
    positions = replay(end_at_time_limit(graph_task(), 31))
    assert [one.comparison for one in positions] == ["same", "same", "depends on the moment", "same"]


def test_a_limit_that_a_worker_found_depends_on_the_moment() -> None:
    positions = replay(recorded_task(run_to_limit(max_tokens=60, at_limit="wrap_up")))
    assert differences(positions) == {3: "depends on the moment"}
    assert positions[-1].chosen.startswith("ends (completed): wrapped up, since the task has used 30 tokens")


def test_errors_that_the_history_determines_are_compared() -> None:
    task = graph_task()
    for code in ("goals", "loop", "router"):
        cut = with_step(replace(task, steps=task.steps[:3]), code=code)
        assert differences(replay(cut))[3] == "differs"


def test_a_pause_depends_on_the_moment() -> None:
    task = graph_task()
    paused = replace(task, steps=task.steps[:3], status=TaskStatus.PAUSED, reason="paused by the user")
    assert differences(replay(paused)) == {None: "depends on the moment"}


def test_an_exception_of_the_router_is_a_difference() -> None:
    def broken(team: Team, history: History) -> Route:
        raise KeyError("no agent")

    positions = replay(replace(recorded_task(run_journey(CUSTOM)), router=broken))
    assert differences(positions) == {1: "differs", 2: "differs", 3: "differs", None: "differs"}
    assert "KeyError" in positions[0].chosen


# --- another team -------------------------------------------------------------------------------------------


def reroute(**graph: Any) -> Team:
    return change_team(GRAPH.team, collaboration_model={"type": "graph", "routing_graph": graph})


def test_the_same_team_decides_the_same() -> None:
    for name in ("graph", "tools", "answers", "manual", "delegating"):
        task = RECORDED_TASKS[name]()
        assert differences(replay(task, task.team)) == {}


def test_a_changed_edge_differs() -> None:
    other = reroute(writer=["critic"], critic=[{"to": "USER"}])
    positions = replay(graph_task(), other)
    assert differences(positions) == {3: "differs", 5: "differs", None: "differs"}
    assert positions[2].chosen.startswith("waits (user_turn)")


def test_a_changed_max_times_differs() -> None:
    other = reroute(
        writer=["critic"], critic=[{"to": "END", "when": {"contains": "APPROVED"}}, {"to": "writer", "max_times": 1}]
    )
    positions = replay(graph_task(), other)
    assert differences(positions) == {5: "differs"}
    assert "no edge of critic holds" in positions[4].chosen


def test_edges_in_another_order_are_another_rule_and_still_counted() -> None:
    other = reroute(writer=["critic"], critic=[{"to": "writer", "max_times": 2}, "END"])
    positions = replay(graph_task(), other)
    assert differences(positions) == {3: "other rule", 5: "other rule"}
    assert "graph: critic[1] -> writer" in positions[2].recorded
    assert "graph: critic[0] -> writer" in positions[2].chosen


def test_an_agent_that_the_other_team_lacks_differs() -> None:
    other = team_of(agents=[member("writer")])
    positions = replay(graph_task(), other)
    assert differences(positions)[2] == "differs"


def test_calls_of_an_agent_that_the_other_team_lacks_differ() -> None:
    positions = replay(recorded_task(run_journey(TOOLS)), team_of(agents=[member("closer")]))
    assert positions[1].comparison == "differs"
    assert positions[1].note == "team 'desk' has no agent 'lead', who made these calls"


def test_a_tool_with_a_new_approval_differs() -> None:
    team = change_team(
        TOOLS.team,
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure", "approval": "required"}],
    )
    position = replay(recorded_task(run_journey(TOOLS)), team)[1]
    assert (position.comparison, position.chosen[:17]) == ("differs", "waits (approval):")


def test_a_denied_call_would_run_without_its_approval() -> None:
    task = recorded_task(run_journey(CONTROLLED["answers"]))
    tools = [{"name": name, "function": f"shop.sums:{name}", "effect": "pure"} for name in ("add", "pay")]
    position = replay(task, change_team(task.team, tools=tools))[1]
    assert position.comparison == "differs"
    assert position.chosen.endswith("tools run: pay")


def test_a_message_differs_if_the_other_team_would_not_wait() -> None:
    other = change_team(MANUAL.team, collaboration_model={"type": "sequential"})
    position = replay(recorded_task(run_journey(MANUAL)), other)[1]
    assert (position.comparison, position.note) == (
        "differs",
        "without the message: expert acts (sequential: next)",
    )
