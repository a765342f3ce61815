"""tell: who acted and why, in words that need no knowledge of how teams are routed."""

from dataclasses import replace

import pytest

from roboco.domain.history.part import TextPart
from roboco.domain.replay.explain import Candidate, StepExplanation, current_status, explain
from roboco.domain.replay.replay import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from tests.support.memory_ports.journeys import GRAPH
from tests.unit.domain.recorded_tasks import FORK, PASTS, forked, graph_past, past_of, travelled
from tests.unit.domain.replay.test_replay import rerouted


def scene(name: str, seq: int) -> StepExplanation:
    """The scene of this step."""
    [found] = explain(PASTS[name](), str(seq))
    return found


@pytest.mark.parametrize("name", PASTS)
def test_every_step_of_an_agent_is_told(name: str) -> None:
    past = PASTS[name]()
    scenes = explain(past)
    assert [one.seq for one in scenes] == [step.seq for step in past.steps if step.by_agent]
    assert all(one.why and one.before and one.events and one.router for one in scenes)
    assert str(past.status) in current_status(past) or past.reason in current_status(past)
    for step in past.steps:
        assert explain(past, step.step_id) == explain(past, str(step.seq))


def test_an_edge_and_those_that_were_closed() -> None:
    told = scene("graph", 5)
    assert told.before == ("critic said: “not yet 2”",)
    assert told.why == "edge number 2 from critic was the first that was open: after critic always"
    assert told.candidates == (
        Candidate("critic[0] -> END", False, 'closed: its condition did not hold: {"contains": "APPROVED"}'),
        Candidate("critic[1] -> writer", True, "taken"),
    )
    assert told.events == ("writer said: “draft number 3”",)


def test_an_edge_that_is_used_up() -> None:
    past = graph_past()
    closed = {"rule": "critic: no edge", "to": "USER", "candidates": ["critic[0] -> END", "critic[1] -> writer"]}
    step = past.steps[-1].model_copy(
        update={"seq": 7, "agent_name": "user", "metadata": {"routing": closed}, "parts": (TextPart(text="hm"),)}
    )
    team = past.team.model_copy(
        update={
            "collaboration_model": past.team.collaboration_model.model_validate(
                {
                    "type": "graph",
                    "routing_graph": {
                        "critic": [{"to": "END", "when": {"contains": "X"}}, {"to": "writer", "max_times": 2}]
                    },
                }
            )
        }
    )
    [told] = explain(replace(past, team=team, steps=(*past.steps, step)), "7")
    assert told.candidates[1].why == "closed: it was taken 2 times already, max_times is 2"


@pytest.mark.parametrize(
    ("name", "seq", "why", "line"),
    [
        ("tools", 5, "lead handed the work over to it: done", "handoff returned"),
        ("tools", 3, "the tools that it had called returned", "nothing failed: tool 'nothing' is not on your list"),
        ("answers", 3, "the tools that it had called returned", "a person did not approve pay"),
        ("answers", 5, "the work seemed to be done, but goals were still open: answer", "the agents were reminded"),
        ("answers", 1, "lead is number 1", "the user asked for these goals: answer"),
        ("interrupting", 3, "first was interrupted", "the user interrupted the work and said: “shorter”"),
        ("manual", 5, "the user named expert", "the user said to expert: “and you”"),
        ("delegating", 3, "the tools that it had called returned", "the answer to delegate came from outside"),
        ("a fork of another team", 1, "(in the task from which this one was forked)", "the user said"),
        ("custom", 1, "3 to go", "the user said"),
    ],
)
def test_what_led_to_it(name: str, seq: int, why: str, line: str) -> None:
    told = scene(name, seq)
    assert why in told.why
    assert any(line in one for one in told.before), told.before


def test_ways_on_of_another_team_are_not_judged() -> None:
    other = rerouted(writer=["critic"], critic=[{"to": "END", "when": {"contains": "X"}}, "writer"])
    past = past_of(forked(travelled(GRAPH), seq=4, team=other), FORK)
    [told] = explain(past, "3")
    assert [candidate.why for candidate in told.candidates] == ["", "taken"]
    [own] = explain(past, "7")
    assert own.candidates[0].why == 'closed: its condition did not hold: {"contains": "X"}'


def test_steps_that_no_agent_wrote() -> None:
    assert scene("manual", 2).why == "it was the user's turn: after every turn the user decides"
    assert scene("graph", 0).why == "the user sent a message"
    assert scene("tools", 2).why == "all calls of the step before were answered"
    assert scene("answers", 4).why == "the work seemed to be done: 1 round(s) are done"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("graph", 'the task ended (completed): no agent is next: critic: contains "APPROVED"'),
        ("held", "the task ended (cancelled): the user stopped it: stopped by the user"),
        ("failing", "the task ended (failed): second failed: second: the model refuses"),
        ("waiting for the user", "it is the user's turn: after every turn the user decides"),
        ("waiting for an approval", "it waits for a person's decision: a person must approve: pay (tc_"),
        ("waiting for the client", "it waits for the client to run a tool: the client must run: client_ask (tc_"),
    ],
)
def test_how_it_stands(name: str, told: str) -> None:
    assert current_status(PASTS[name]()).startswith(told)


def test_what_comes_next() -> None:
    def going(past: RecordedTask, steps: int) -> RecordedTask:
        return replace(past, steps=past.steps[:steps], status=TaskStatus.RUNNING, reason="")

    next_one = "it is being worked on (running); next: critic acts (graph: writer[0] -> critic)"
    assert current_status(going(graph_past(), 2)) == next_one
    assert current_status(going(PASTS["tools"](), 2)).endswith("next: tools run: add, add")
    assert current_status(going(PASTS["custom"](), 2)) == "it is being worked on (running)"
    deferred = replace(going(graph_past(), 2), reason="writer waits: model 'm' cannot be reached")
    assert current_status(deferred) == "it waits (running): writer waits: model 'm' cannot be reached"


def test_a_step_that_is_not_there() -> None:
    for wrong in ("7", "-1", "step_of_nobody"):
        with pytest.raises(UsageError, match=r"the steps 0 to 6, those of agents are 1, 2, 3, 4, 5, 6"):
            explain(graph_past(), wrong)


def test_long_texts_are_cut() -> None:
    past = graph_past()
    step = past.steps[1].model_copy(update={"parts": (TextPart(text="word\n" * 1000),)})
    [told] = explain(replace(past, steps=(past.steps[0], step, *past.steps[2:])), "1")
    assert len(told.events[0]) < 230
    assert "\n" not in told.events[0]
