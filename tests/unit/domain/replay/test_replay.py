"""replay: a history follows from its team, or it is told where it does not."""

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
from roboco.domain.replay.evidence import history_prefixes, recorded_results
from roboco.domain.replay.replay import RecordedTask, ReplayStep, replay
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from tests.support.memory_ports.controlled import CONTROLLED
from tests.support.memory_ports.journeys import CUSTOM, GRAPH, MANUAL, TOOLS, member
from tests.support.memory_ports.world import team_of
from tests.unit.domain.recorded_tasks import PASTS, graph_past, limited, past_of, travelled


def changed(team: Team, **fields: Any) -> Team:
    """The team with these fields in the place of its own."""
    return validate_team(team.model_dump(mode="json", by_alias=True, exclude_none=True) | fields)


def verdicts(positions: tuple[ReplayStep, ...]) -> dict[int | None, str]:
    """What is not the same, by its position."""
    return {position.seq: position.comparison for position in positions if position.comparison != "same"}


def with_step(
    past: RecordedTask, *, code: str | None = None, message: str = "why", seconds: float = 1.0
) -> RecordedTask:
    """The past with one more step of the orchestrator's, so long after its beginning: an error, or a text."""
    part = TextPart(text=message) if code is None else ErrorPart(code=code, message=message)
    step = past.steps[-1].model_copy(
        update={
            "step_id": "step_more",
            "seq": len(past.steps),
            "agent_name": ORCHESTRATOR,
            "parts": (part,),
            "metadata": {"limit": "writer"} if code == "limit" else {},
            "created_at": past.started_at.fromtimestamp(past.started_at.timestamp() + seconds, past.started_at.tzinfo),
        }
    )
    return replace(past, steps=(*past.steps, step), status=TaskStatus.FAILED, reason=message)


@pytest.mark.parametrize("name", PASTS)
def test_a_history_follows_from_its_team(name: str) -> None:
    past = PASTS[name]()
    positions = replay(past)
    assert verdicts(positions) == {}
    stands = past.status.ended or past.status.waiting
    assert len(positions) == len(past.steps) - past.first + stands


def test_what_tools_said_is_given_only_when_it_is_asked_for() -> None:
    chosen = [position.chosen for position in replay(PASTS["tools"]())]
    assert chosen[1] == "tools run: add, add, then 4 results, 2 of them errors"


@pytest.mark.parametrize("field", ["agent_name", "routing", "parts"])
def test_a_step_that_does_not_follow_is_found(field: str) -> None:
    past = graph_past()
    step = past.steps[4]
    forged: dict[str, TaskStep] = {
        "agent_name": step.model_copy(update={"agent_name": "writer"}),
        "routing": step.model_copy(update={"metadata": step.metadata | {"routing": {"rule": "a whim"}}}),
        "parts": step.model_copy(update={"parts": (TextPart(text="APPROVED"),)}),
    }
    steps = (*past.steps[:4], forged[field], *past.steps[5:])
    found = verdicts(replay(replace(past, steps=steps)))
    assert found[5 if field == "parts" else 4] == "differs"


def test_metadata_that_does_not_follow_is_found() -> None:
    past = PASTS["answers"]()
    forged = past.steps[6].model_copy(
        update={"metadata": past.steps[6].metadata | {"achieved_goals": {"answer": "tc_0"}}}
    )
    assert verdicts(replay(replace(past, steps=(*past.steps[:6], forged, *past.steps[7:])))) == {6: "differs"}


def test_results_of_calls_that_were_closed_are_not_given() -> None:
    past = PASTS["calls closed by an interruption"]()
    history = list(history_prefixes(past.steps))[1]
    situation, told = recorded_results(past.team, history, past.steps[2], past.steps[3])
    assert situation.interruption is not None
    assert [told[call.id].closed for call in past.steps[1].calls] == [False, True, True, True]


def test_an_end_that_does_not_follow_is_found() -> None:
    assert verdicts(replay(replace(graph_past(), reason="another"))) == {None: "differs"}
    assert verdicts(replay(replace(graph_past(), status=TaskStatus.USER_TURN))) == {None: "differs"}


@pytest.mark.parametrize(
    ("code", "message", "note"),
    [
        ("attempts", "writer's turn was lost 3 times", "workers were lost"),
        ("limit", "the task would go beyond max_tokens", "the worker of the turn found it"),
        (
            "router",
            "router 'x' chose '' (the worker was lost 3 times while it ran)",
            "no cause of this is in the history",
        ),
        ("weather", "a kind of a later release", "no cause of this"),
        (None, "a note of a later release", "no cause of this"),
    ],
)
def test_what_no_history_tells_depends_on_the_moment(code: str | None, message: str, note: str) -> None:
    past = graph_past()
    cut = replace(past, steps=past.steps[:3])
    [position] = [one for one in replay(with_step(cut, code=code, message=message)) if one.seq == 3]
    assert position.comparison == "depends on the moment"
    assert note in position.note


def late(past: RecordedTask, seconds: float) -> RecordedTask:
    """The past up to its third step, where a limit of 30 seconds ended it so long after its beginning."""
    team = changed(past.team, limits={"max_seconds": 30})
    cut = replace(past, team=team, steps=past.steps[:3])
    action = decide(team, History(fold(cut.steps), cut.steps), Situation(seconds=seconds))
    assert isinstance(action, AppendStep)
    ended = with_step(cut, code="limit", seconds=seconds)
    step = ended.steps[3].model_copy(update={"parts": action.parts, "metadata": action.metadata})
    return replace(ended, steps=(*cut.steps, step), reason=str(step.error and step.error.message))


def test_a_limit_of_seconds_is_the_clocks() -> None:
    positions = replay(late(graph_past(), 31))
    assert [one.comparison for one in positions] == ["same", "same", "depends on the moment", "same"]
    assert positions[2].note == "it depends on time: 31 s after the task started the same is chosen"


def test_a_limit_that_a_worker_found_depends_on_what_it_would_have_sent() -> None:
    positions = replay(past_of(limited(max_tokens=60, at_limit="wrap_up")))
    assert verdicts(positions) == {3: "depends on the moment"}
    assert positions[-1].chosen.startswith("ends (completed): wrapped up, since the task has used 30 tokens")


def test_errors_that_follow_from_the_history_must_follow() -> None:
    past = graph_past()
    for code in ("goals", "loop", "router"):
        cut = with_step(replace(past, steps=past.steps[:3]), code=code)
        assert verdicts(replay(cut))[3] == "differs"


def test_a_pause_depends_on_the_moment() -> None:
    past = graph_past()
    paused = replace(past, steps=past.steps[:3], status=TaskStatus.PAUSED, reason="paused by the user")
    assert verdicts(replay(paused)) == {None: "depends on the moment"}


def test_a_router_that_fails_is_no_crash() -> None:
    def broken(team: Team, history: History) -> Route:
        raise KeyError("nobody")

    positions = replay(replace(past_of(travelled(CUSTOM)), router=broken))
    assert verdicts(positions) == {1: "differs", 2: "differs", 3: "differs", None: "differs"}
    assert "KeyError" in positions[0].chosen


# --- by another team -------------------------------------------------------------------------------------------


def rerouted(**graph: Any) -> Team:
    return changed(GRAPH.team, collaboration_model={"type": "graph", "routing_graph": graph})


def test_the_same_team_chooses_the_same() -> None:
    for name in ("graph", "tools", "answers", "manual", "delegating"):
        past = PASTS[name]()
        assert verdicts(replay(past, past.team)) == {}


def test_a_changed_edge() -> None:
    other = rerouted(writer=["critic"], critic=[{"to": "USER"}])
    positions = replay(graph_past(), other)
    assert verdicts(positions) == {3: "differs", 5: "differs", None: "differs"}
    assert positions[2].chosen.startswith("waits (user_turn)")


def test_a_changed_max_times() -> None:
    other = rerouted(
        writer=["critic"], critic=[{"to": "END", "when": {"contains": "APPROVED"}}, {"to": "writer", "max_times": 1}]
    )
    positions = replay(graph_past(), other)
    assert verdicts(positions) == {5: "differs"}
    assert "no edge of critic holds" in positions[4].chosen


def test_edges_in_another_order_are_another_rule_and_still_counted() -> None:
    other = rerouted(writer=["critic"], critic=[{"to": "writer", "max_times": 2}, "END"])
    positions = replay(graph_past(), other)
    assert verdicts(positions) == {3: "other rule", 5: "other rule"}
    assert positions[2].note == "rule 'critic[0] -> writer', recorded is 'critic[1] -> writer'"


def test_an_agent_that_the_other_team_lacks() -> None:
    other = team_of(agents=[member("writer")])
    positions = replay(graph_past(), other)
    assert verdicts(positions)[2] == "differs"
    assert positions[1].note == "team 'desk' has no agent 'critic'"


def test_calls_of_an_agent_that_the_other_team_lacks() -> None:
    positions = replay(past_of(travelled(TOOLS)), team_of(agents=[member("closer")]))
    assert positions[1].comparison == "differs"
    assert positions[1].note == "team 'desk' has no agent 'lead', who made these calls"


def test_a_tool_that_needs_approval_now() -> None:
    team = changed(
        TOOLS.team,
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure", "approval": "required"}],
    )
    position = replay(past_of(travelled(TOOLS)), team)[1]
    assert (position.comparison, position.chosen[:17]) == ("differs", "waits (approval):")


def test_a_call_that_was_denied_would_run() -> None:
    past = past_of(travelled(CONTROLLED["answers"]))
    tools = [{"name": name, "function": f"shop.sums:{name}", "effect": "pure"} for name in ("add", "pay")]
    position = replay(past, changed(past.team, tools=tools))[1]
    assert position.comparison == "differs"
    assert position.chosen.endswith("tools run: pay")


def test_a_message_for_which_it_would_not_have_waited() -> None:
    other = changed(MANUAL.team, collaboration_model={"type": "sequential"})
    position = replay(past_of(travelled(MANUAL)), other)[1]
    assert (position.comparison, position.note) == (
        "differs",
        "without the message: expert acts (sequential: next)",
    )
