"""Guards of the user's messages: no agent sees a message before they have passed it, and none sees a refused one."""

from typing import Any

import pytest

from roboco.domain.decision.action import AppendStep, Situation
from roboco.domain.decision.decide import decide
from roboco.domain.history.part import ErrorPart
from roboco.domain.history.state import History, fold
from roboco.domain.status import TaskStatus
from roboco.domain.team.validation import validate_team
from roboco.errors import InvalidTeam
from tests.support.memory_ports.journeys import POLITE, member
from tests.unit.domain.steps import steps_of
from tests.unit.engine.accept.test_fork import FORK, fork_task
from tests.unit.engine.coordinate.test_output_guards import Desk

ANSWER = {"answer": "I cannot help with that."}


def desk_of(verdict: Any = True, **guards: Any) -> Desk:
    """Return a desk whose guard of messages returns, or raises, this verdict."""
    desk = Desk(input=["polite"], output=[], **guards)
    desk.verdict = verdict
    return desk


REFUSALS: list[Any] = [
    False,
    {"passed": False, "reason": "rude"},
    {"passed": 1},
    None,
    ValueError("broken"),
]


@pytest.mark.parametrize("verdict", REFUSALS, ids=str)
def test_anything_but_a_pass_ends_the_task_before_any_turn(verdict: object) -> None:
    desk = desk_of(verdict)
    world = desk.run()
    assert desk.requests == []
    assert world.summary().status is TaskStatus.FAILED
    assert "polite" in world.summary().reason
    last = world.history()[-1]
    assert last.error is not None
    assert last.error.code == "guard"


def test_a_refused_message_is_answered_as_the_team_says() -> None:
    desk = desk_of({"passed": False, "reason": "rude"}, on_refusal=ANSWER)
    world = desk.run()
    assert desk.requests == []
    assert world.summary().status is TaskStatus.COMPLETED
    assert (world.history()[-1].agent_name, world.history()[-1].text) == ("one", ANSWER["answer"])
    assert world.history()[-1].metadata["refused"] == "polite: rude"


@pytest.mark.parametrize(("on_error", "status"), [("refuse", TaskStatus.COMPLETED), ("fail", TaskStatus.FAILED)])
def test_a_guard_that_fails_refuses_or_lets_the_task_fail_as_the_team_says(on_error: str, status: TaskStatus) -> None:
    desk = desk_of(ValueError("broken"), on_refusal=ANSWER, on_error=on_error)
    world = desk.run()
    assert (desk.requests, world.summary().status) == ([], status)


TOOL = {"name": "client_map", "description": "hidden", "input_schema": {"type": "object", "title": "hidden"}}


@pytest.mark.parametrize(
    ("attached", "seen"),
    [
        (
            {"client_context": {"instructions": "hidden\nrules", "a": 1}},
            'client_context: {"a":1,"instructions":"hidden',
        ),
        ({"goals": [{"name": "g", "description": "hidden", "schema": {"type": "object"}}]}, '"description":"hidden"'),
        ({"client_tools": [TOOL]}, '"title":"hidden"'),
        ({"state": {"hint": "hidden"}}, 'state: {"hint":"hidden"}'),
    ],
)
def test_guards_see_what_agents_see_beside_the_text(attached: dict[str, Any], seen: str) -> None:
    desk = desk_of(lambda text: "hidden" not in text)
    world = desk.run("hello", **attached)
    assert (world.summary().status, desk.requests) == (TaskStatus.FAILED, [])
    [text] = desk.seen
    assert text.startswith("hello\n\n")
    assert seen in text


def test_messages_that_no_process_has_together_are_refused() -> None:
    """Many messages that interrupt the guards push the first one out of the tail."""
    desk = desk_of()
    first, last = steps_of(("user", "a"), ("user", "b"))
    state = fold([first, last])
    assert isinstance(decide(desk.team, History(state, (first, last)), Situation()), AppendStep)
    found = decide(desk.team, History(state, (last,)), Situation())
    assert isinstance(found, AppendStep)
    assert isinstance(found.parts[0], ErrorPart)
    assert "too many messages" in found.parts[0].message


def test_accepted_messages_become_steps_before_a_refused_task_ends() -> None:
    desk = desk_of(on_refusal=ANSWER)
    desk.verdict = lambda text: desk.world.send("more", "item1")
    world = desk.run()
    assert [step.text for step in world.history() if step.agent_name == "user"] == ["go", "more"]
    assert (world.summary().status, desk.requests) == (TaskStatus.COMPLETED, [])


def test_guards_name_tools_or_teams_of_the_team_once() -> None:
    data = {"name": "desk", "agents": [member("one")], "tools": [POLITE]}
    assert validate_team(data | {"guards": {"input": ["polite"]}}).guards is not None
    for names, mistake in (
        (["other"], "no tool or team 'other'"),
        (["polite", "polite"], "there twice"),
        ([], "input"),
    ):
        with pytest.raises(InvalidTeam, match=mistake):
            validate_team(data | {"guards": {"input": names}})


def test_a_message_that_interrupts_a_guard_is_decided_with_the_first_one() -> None:
    desk = desk_of()
    started: list[str] = []

    def interrupt_once(text: str) -> object:
        if not started:
            started.append(text)
            desk.world.interrupt("wait, in French", "item1")
        return True

    desk.verdict = interrupt_once
    world = desk.run()
    assert desk.seen == ["go", "go\n\nwait, in French"]
    assert all("wait, in French" in str(request.messages) for request in desk.requests)
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_retry_and_a_fork_of_a_refused_message_end_again_without_a_turn() -> None:
    desk = desk_of(lambda text: "go" not in text)
    world = desk.run()
    retried = world.retry()
    world.settle(retried)
    assert world.summary(retried).status is TaskStatus.FAILED
    fork_task(world, 2, "please")
    world.settle(FORK)
    assert world.summary(FORK).status is TaskStatus.FAILED
    assert desk.requests == []
