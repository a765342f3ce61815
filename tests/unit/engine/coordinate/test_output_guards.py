"""Guards of answers: no follower, session, notification or other agent sees an answer that they have not passed."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from roboco.client.task_result import result_of
from roboco.domain.history.state import fold
from roboco.domain.history.step import OUTPUT
from roboco.domain.recorded.rehearsal import rehearse
from roboco.domain.session.session import messages_of
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event_file import with_step
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from roboco.errors import InvalidTeam, ModelError
from roboco.lab.replay.recording import recording_of
from roboco.lab.replay.replay import replay
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.journeys import POLITE, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

SECRET = "the secret word"
REFUSAL = {"answer": "I cannot say that."}
ORDER: dict[str, Any] = {"type": "sequential"}


class Desk:
    """A world whose agents answer as the test says, and whose guard returns, or raises, what the test says."""

    def __init__(self, reply: Callable[[Request], ScriptedReply] | None = None, **fields: Any) -> None:
        self.requests: list[Request] = []
        self.seen: list[str] = []
        self.verdict: Any = lambda text: SECRET not in text
        self._answer = reply or (lambda request: says(f"{speaker(request)} says {own_turns(request)}"))
        functions = {"polite": self._guard, "add": lambda args, context: 3}
        self.world = World(world_parts(self._reply, functions))
        names = ("input", "output", "on_refusal", "on_error")
        guards = {"output": ["polite"]} | {name: fields.pop(name) for name in names if name in fields}
        add = {"name": "add", "function": "shop.sums:add", "effect": "pure"}
        given = {"agents": [member("one"), member("two")], "tools": [POLITE, add], "collaboration_model": ORDER}
        self.team: Team = team_of(**{"guards": guards} | given | fields)

    def _reply(self, request: Request) -> ScriptedReply:
        self.requests.append(request)
        return self._answer(request)

    def _guard(self, args: dict[str, Any], context: ToolContext) -> object:
        self.seen.append(args["text"])
        verdict = self.verdict(args["text"]) if callable(self.verdict) else self.verdict
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def run(self, prompt: str = "go", **options: Any) -> World:
        self.world.submit(self.team, prompt, at_once=True, **options)
        self.world.settle()
        return self.world

    def shown(self) -> str:
        """Return all that followers, early and late ones, sessions, and receivers of the result see."""
        world, history = self.world, self.world.history()
        late = MergedStream(Cursor(), partial(world.histories.read, TASK)).missing_steps()
        session = [message.model_dump_json() for message in messages_of(history)]
        result = result_of(world.summary(), history)
        archived = [with_step({"type": "event_step_end"}, step) for step in history]
        return "\n".join(map(str, [*world.published(), *late, *archived, *session, result]))


def test_a_refused_answer_is_not_shown_and_ends_the_task() -> None:
    for refusal, status in (("end", TaskStatus.FAILED), (REFUSAL, TaskStatus.COMPLETED)):
        desk = Desk(lambda request: says(SECRET), on_refusal=refusal)
        world = desk.run(conversation=True)
        assert (world.summary().status, len(desk.requests), desk.seen) == (status, 1, [SECRET])
        assert "the answer of one was refused: polite" in world.summary().reason
        assert "secret" not in desk.shown()
        assert (REFUSAL["answer"] in desk.shown()) is (refusal is REFUSAL)
        world.settle(world.retry() if status is TaskStatus.FAILED else TASK)
        assert len(desk.requests) == 1


@pytest.mark.parametrize(("on_error", "status"), [("refuse", TaskStatus.COMPLETED), ("fail", TaskStatus.FAILED)])
def test_an_answer_whose_guard_fails_is_refused_or_lets_the_task_fail(on_error: str, status: TaskStatus) -> None:
    desk = Desk(lambda request: says(SECRET), on_refusal=REFUSAL, on_error=on_error)
    desk.verdict = ValueError("broken")
    assert desk.run().summary().status is status
    assert "secret" not in desk.shown()


SILENT: dict[str, ScriptedReply] = {
    "text beside calls": says(SECRET, ("add", {"a": 1})),
    "reasoning": ScriptedReply(("fine",), reasoning=(SECRET,)),
    "a reply that fails": ScriptedReply((SECRET, " more"), error=ModelError("400", "no", retryable=False)),
    "a refusal": ScriptedReply((), refusal=SECRET),
    "a filtered reply": ScriptedReply((SECRET,), finish_reason="content_filter"),
}


@pytest.mark.parametrize("reply", SILENT.values(), ids=SILENT)
def test_words_of_a_model_that_are_no_answer_are_dropped(reply: ScriptedReply) -> None:
    desk = Desk(lambda request: reply if own_turns(request) == 0 and speaker(request) == "one" else says("fine"))
    world = desk.run()
    assert SECRET not in desk.shown()
    assert SECRET not in "".join(step.line() for step in world.history())
    assert set(desk.seen) <= {"fine"}


@pytest.mark.parametrize("message", ["", "in French"])
def test_an_answer_whose_guards_are_interrupted_is_discarded_and_the_same_agent_acts_again(message: str) -> None:
    desk = Desk()

    def interrupt_once(text: str) -> object:
        if len(desk.seen) == 1:
            desk.world.interrupt(message, "item1") if message else desk.world.halt()
        return True

    desk.verdict = interrupt_once
    world = desk.run()
    if not message:
        assert (world.status(), len(desk.seen)) == (TaskStatus.USER_TURN, 1)
        world.send("go on", "item2")
        world.settle()
    assert desk.seen == ["one says 0", "one says 0", "two says 0"]
    assert [step.agent_name for step in world.history() if step.text and step.by_agent] == ["one", "two"]
    assert {step.comparison for step in replay(world.recorded()) if step.seq is not None} == {"same"}


def test_a_typed_answer_and_its_state_exist_once_it_has_passed() -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    agents = [member("one", output=schema, state=["word"])]
    replies = iter(["no JSON", '{"word": "fine"}'])
    desk = Desk(lambda request: says(next(replies)), agents=agents)
    world = desk.run()
    assert desk.seen == ["no JSON", '{"word": "fine"}']
    assert [step.metadata[OUTPUT] for step in world.history() if step.has_output] == [{"word": "fine"}]
    assert world.server.held.tasks[TASK].status is TaskStatus.COMPLETED
    desk = Desk(lambda request: says(f'{{"word": "{SECRET}"}}'), agents=agents)
    world = desk.run()
    assert SECRET not in desk.shown()
    assert not [step for step in world.history() if step.has_output or "state" in step.metadata]


def test_messages_and_answers_are_guarded_by_the_same_team() -> None:
    desk = Desk(input=["polite"], collaboration_model=ORDER | {"rounds": 2})
    world = desk.run()
    assert desk.seen == ["go", "one says 0", "two says 0", "one says 1", "two says 1"]
    assert {step.comparison for step in replay(world.recorded())} == {"same"}
    rehearsed = rehearse(desk.team, recording_of(world.recorded()))
    assert (rehearsed.status, rehearsed.agents) == ("completed", ["one", "two", "one", "two"])
    assert [step.text for step in rehearsed.steps] == [step.text for step in world.history()]


def test_a_guarded_answer_counts_as_one_turn_for_routers_and_loops() -> None:
    counted = []
    agents = [member("one", handoffs=["two"]), member("two", handoffs=["one"])]
    for fields in ({}, {"guards": None}):
        other = iter(["two", "one"])
        desk = Desk(collaboration_model=ORDER | {"rounds": 2}, agents=agents, **fields)

        def reply(request: Request, other: Iterator[str] = other) -> ScriptedReply:
            name = next(other, None)
            return says("again") if name is None else says("", ("handoff", {"destination_agent": name}))

        desk._answer = reply
        history = desk.run().history()
        first = next(step.seq for step in history if step.text == "again")
        state, loop = fold(history, TASK), fold(history[: first + 1]).loop
        assert loop.handoffs == 2
        counted.append((state.turns, state.rules, loop, state.last_agent))
    assert counted[0] == counted[1]


def test_a_team_guards_answers_as_sub_tasks() -> None:
    output = {"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}
    judge = {"name": "judge", "agents": [member("judge", output=output)], "collaboration_model": ORDER}
    for passed in ("true", "false"):
        desk = Desk(output=["judge", "polite"], teams={"judge": judge}, agents=[member("one", delegates=["judge"])])
        desk._answer = lambda request, passed=passed: says(  # type: ignore[misc]
            f'{{"passed": {passed}}}' if speaker(request) == "judge" else "an answer"
        )
        world = desk.run()
        assert world.summary().status is (TaskStatus.COMPLETED if passed == "true" else TaskStatus.FAILED)
        assert ("an answer" in desk.shown()) is (passed == "true")


@pytest.mark.parametrize("agent", [{"function": "shop.agents:one"}, {"map": {"over": "state.list", "team": "inner"}}])
def test_answers_that_no_model_writes_cannot_be_guarded(agent: dict[str, Any]) -> None:
    inner = {"name": "inner", "agents": [member("one")]}
    data = {"name": "desk", "agents": [{"name": "odd"} | agent], "tools": [POLITE], "teams": {"inner": inner}}
    with pytest.raises(InvalidTeam, match=r"guards.output: agent 'odd' is a function or has a map"):
        validate_team(data | {"guards": {"output": ["polite"]}})
    for guards, mistake in (({}, "at least one guard"), ({"output": ["other"]}, "no tool or team 'other'")):
        with pytest.raises(InvalidTeam, match=mistake):
            validate_team(data | {"guards": guards})
