"""Guards of the user's messages: no agent sees a message before they have passed it, and none sees a refused one."""

from typing import Any

import pytest

from roboco.domain.decision.action import AppendStep, Situation
from roboco.domain.decision.decide import decide
from roboco.domain.history.part import ErrorPart
from roboco.domain.history.state import History, fold
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from roboco.errors import InvalidTeam
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.journeys import POLITE, guard_team, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import World, world_parts
from tests.unit.domain.steps import steps_of

ANSWER = {"answer": "I cannot help with that."}


class Desk:
    """A world whose model records the requests, and whose guard returns, or raises, what the test says."""

    def __init__(self, verdict: Any = True, **guards: Any) -> None:
        self.requests: list[Request] = []
        self.seen: list[str] = []
        self.verdict = verdict
        self.world = World(world_parts(self._reply, {"polite": self._guard}))
        self.team = guard_team(**guards)

    def _reply(self, request: Request) -> ScriptedReply:
        self.requests.append(request)
        return says("an answer")

    def _guard(self, args: dict[str, Any], context: ToolContext) -> object:
        self.seen.append(args["text"])
        verdict = self.verdict(args["text"]) if callable(self.verdict) else self.verdict
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def run(self, prompt: str = "go", team: Team | None = None, **options: Any) -> World:
        self.world.submit(team or self.team, prompt, at_once=True, **options)
        self.world.settle()
        return self.world


REFUSALS: list[Any] = [
    False,
    {"passed": False, "reason": "rude"},
    {"passed": 1},
    None,
    ValueError("broken"),
]


@pytest.mark.parametrize("verdict", REFUSALS, ids=str)
def test_anything_but_a_pass_ends_the_task_before_any_turn(verdict: object) -> None:
    desk = Desk(verdict)
    world = desk.run()
    assert desk.requests == []
    assert world.summary().status is TaskStatus.FAILED
    assert "polite" in world.summary().reason
    last = world.history()[-1]
    assert last.error is not None
    assert last.error.code == "guard"


def test_a_refused_message_is_answered_as_the_team_says() -> None:
    desk = Desk({"passed": False, "reason": "rude"}, on_refusal=ANSWER)
    world = desk.run()
    assert desk.requests == []
    assert world.summary().status is TaskStatus.COMPLETED
    assert (world.history()[-1].agent_name, world.history()[-1].text) == ("one", ANSWER["answer"])
    assert world.history()[-1].metadata["refused"] == "polite: rude"


@pytest.mark.parametrize(("on_error", "status"), [("refuse", TaskStatus.COMPLETED), ("fail", TaskStatus.FAILED)])
def test_a_guard_that_fails_refuses_or_lets_the_task_fail_as_the_team_says(on_error: str, status: TaskStatus) -> None:
    desk = Desk(ValueError("broken"), on_refusal=ANSWER, on_error=on_error)
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
    desk = Desk(lambda text: "hidden" not in text)
    world = desk.run("hello", **attached)
    assert (world.summary().status, desk.requests) == (TaskStatus.FAILED, [])
    [text] = desk.seen
    assert text.startswith("hello\n\n")
    assert seen in text


def test_messages_that_no_process_has_together_are_refused() -> None:
    """Many messages that interrupt the guards push the first one out of the tail."""
    desk = Desk()
    first, last = steps_of(("user", "a"), ("user", "b"))
    state = fold([first, last])
    assert isinstance(decide(desk.team, History(state, (first, last)), Situation()), AppendStep)
    found = decide(desk.team, History(state, (last,)), Situation())
    assert isinstance(found, AppendStep)
    assert isinstance(found.parts[0], ErrorPart)
    assert "too many messages" in found.parts[0].message


def test_accepted_messages_become_steps_before_a_refused_task_ends() -> None:
    desk = Desk(on_refusal=ANSWER)
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
