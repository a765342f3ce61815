"""Journeys with input from outside: answers, approvals, goals, pauses, sub-tasks, interruptions."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from roboco.domain.history.part import successful_outcome
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import sub_task_id
from roboco.domain.inbox.submission import ImportedMessage
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import ModelError, TransientError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import Act, Journey, assert_whole, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of

ASK = {"name": "client_ask", "description": "asks", "input_schema": {"type": "object"}}
GOAL = {"name": "answer", "description": "the number", "schema": {"type": "object", "required": ["n"]}}


def _answers_script(request: Request) -> ScriptedReply:
    return (
        says("calling", ("client_ask", {"q": 1}), ("pay", {"amount": 5}), ("add", {"a": 1, "b": 2}), ("pay", {})),
        says("I am done"),
        says("", ("achieve_answer", {}), ("achieve_answer", {"n": 7})),
        says("really done"),
    )[own_turns(request)]


def _judge(index: int, approved: bool) -> Act:
    return lambda world: world.decide_approval(world.history()[1].calls[index].id, approved)


def _answer(world: World) -> None:
    world.answer(successful_outcome(world.history()[1].calls[0], "seven"))


ANSWERS = Journey(
    team_of(
        agents=[member("lead", tools=["add", "pay"])],
        tools=[
            {"name": "add", "function": "shop.sums:add", "effect": "pure"},
            {"name": "pay", "function": "shop.sums:pay", "effect": "pure", "approval": "required"},
        ],
    ),
    _answers_script,
    {"add": lambda args, context: args["a"] + args["b"], "pay": lambda args, context: f"paid {args['amount']}"},
    acts=(_judge(3, False), _answer, _judge(1, True)),
    options={"client_tools": [ASK], "goals": [GOAL]},
)


def _let_days_pass(days: int, decided: int) -> Act:
    """Return the act that lets days pass until this number of decisions is stored."""

    def act(world: World) -> None:
        world.clock.move(days * 86_400.0)
        while sum("/verdict-" in path for path in world.files.held) < decided:
            world.settle_for(1)

    return act


EXPIRING = Journey(
    team_of(
        agents=[member("lead", tools=["pay"])],
        tools=[
            {"name": "pay", "function": "shop.sums:pay", "effect": "pure", "approval": "required"}
            | {"expires": "1d", "remind": "1d"},
        ],
    ),
    lambda request: says("", ("pay", {"amount": 5}), ("pay", {"amount": 7})) if own_turns(request) == 0 else says("so"),
    {"pay": lambda args, context: f"paid {args['amount']}"},
    acts=(_judge(1, True), _let_days_pass(1, 2)),
)

HELD = Journey(
    team_of(agents=[member("helper")], collaboration_model={"type": "manual"}),
    lambda request: says(f"{speaker(request)} answers {request.messages[-1]['content']}"),
    acts=(
        lambda world: world.pause("pause1"),
        lambda world: world.send("more", "item1"),
        lambda world: world.step("step1"),
        lambda world: world.step("step2"),
        lambda world: world.resume("resume1"),
        lambda world: world.stop("stop1"),
    ),
)


def _delegating_script(request: Request) -> ScriptedReply:
    if speaker(request) != "lead":
        return says(f"{speaker(request)} did: {request.messages[1]['content']}")
    if own_turns(request) > 0:
        return says("all together")
    return says(
        "you two", ("delegate", {"team": "helpers", "prompt": "a"}), ("delegate", {"team": "pair", "prompt": "b"})
    )


DELEGATING = Journey(
    team_of(
        agents=[member("lead", delegates=["helpers", "pair"])],
        teams={
            "helpers": {
                "name": "helpers",
                "agents": [member("helper")],
                "collaboration_model": {"type": "manual"},
            },
            "pair": {"name": "pair", "agents": [member("one"), member("two")]},
        },
    ),
    _delegating_script,
)


SEARCHES = ["tides", {"about": "moon"}, "refuse"]


def search_team(*more: dict[str, Any], **work: Any) -> Team:
    """Return a team of a planner whose list is mapped over another team, and of a writer."""
    listed = {"type": "object", "properties": {"searches": {"type": "array"}}, "required": ["searches"]}
    mapped = {"over": "output.planner.searches", "team": "search", "parallel": 2} | work
    search = {
        "name": "search",
        "agents": [member("finder") | {"prompt": "You are {{ context.item.about | default('finder') }}."}],
    }
    agents = [member("planner", output=listed), {"name": "searches", "map": mapped}, *more, member("writer")]
    return team_of(agents=agents, teams={"search": search})


def search_script(request: Request) -> ScriptedReply:
    """Plan SEARCHES, find something for each but "refuse", and write how many were found."""
    match speaker(request):
        case "planner":
            return says(json.dumps({"searches": SEARCHES}))
        case "writer":
            return says(f"{sum('found' in str(one['content']) for one in request.messages)} lists")
        case _ if request.messages[1]["content"] == "refuse":
            return ScriptedReply(error=ModelError("model", "it refuses", retryable=False))
        case name:
            return says(f"{name} found {request.messages[1]['content']}")


MAPPING = Journey(search_team(), search_script)


def _interrupting(request: Request, world: World) -> ScriptedReply:
    if any(message["content"] == "shorter" for message in request.messages):
        return says("in brief")
    return ScriptedReply(("half ", "a ", "word"), meanwhile=lambda: world.interrupt("shorter"))


INTERRUPTING = Journey(team_of(agents=[member("first")]), live=_interrupting)


def _stopping(request: Request, world: World) -> ScriptedReply:
    return ScriptedReply(("half ", "a ", "word"), meanwhile=lambda: world.stop())


STOPPING = Journey(team_of(agents=[member("first")]), live=_stopping)


def _halting(request: Request, world: World) -> ScriptedReply:
    if any(message["content"] == "go on" for message in request.messages):
        return says("in brief")
    return ScriptedReply(("half ", "a ", "word"), meanwhile=lambda: world.halt())


HALTING = Journey(
    team_of(agents=[member("first"), member("second")]),
    live=_halting,
    acts=(lambda world: world.send("go on", "item1"),),
)

HALTED = Journey(
    team_of(agents=[member("helper")], collaboration_model={"type": "manual"}),
    lambda request: says(f"{speaker(request)} answers {request.messages[-1]['content']}"),
    acts=(
        lambda world: world.pause("pause1"),
        lambda world: world.halt("halt1"),
        lambda world: world.resume("resume1"),
        lambda world: world.send("more", "item1"),
        lambda world: world.stop("stop1"),
    ),
)

CONVERSATION = Journey(
    team_of(agents=[member("first"), member("second")]),
    lambda request: says(f"{speaker(request)} answers {request.messages[-1]['content']}"),
    acts=(
        lambda world: world.send("more", "item1"),
        lambda world: world.send("and you", "item2", agent="first"),
        lambda world: world.stop("stop1"),
    ),
    options={"conversation": True},
)

IMPORTED = Journey(
    team_of(agents=[member("helper"), member("expert")], collaboration_model={"type": "manual"}),
    lambda request: says(f"{speaker(request)} answers {request.messages[-1]['content']}"),
    acts=(lambda world: world.send("more", "item1"), lambda world: world.stop("stop1")),
    options={
        "history": [
            ImportedMessage(role="user", text="Who are you?"),
            ImportedMessage(role="assistant", text="An expert.", agent="expert"),
        ]
    },
)


def _failing_until_retried(request: Request, world: World) -> ScriptedReply:
    retried = world.summary().retried_as or any(step.is_retry for step in world.history())  # by an earlier release
    if speaker(request) == "second" and not retried:
        return ScriptedReply(("the", " half"), error=ModelError("model", "the model refuses", retryable=False))
    return says(f"{speaker(request)} is well")


RETRIED = Journey(
    team_of(agents=[member("first"), member("second")]),
    live=_failing_until_retried,
    acts=(lambda world: world.settle(world.retry(by="ops")),),
)

CONTROLLED = {
    "answers": ANSWERS,
    "conversation": CONVERSATION,
    "expiring": EXPIRING,
    "halted": HALTED,
    "held": HELD,
    "imported": IMPORTED,
    "delegating": DELEGATING,
    "mapping": MAPPING,
    "retried": RETRIED,
}
"""Journeys that always produce the same history."""
CUT_OFF = {"halting": HALTING, "interrupting": INTERRUPTING, "stopping": STOPPING}
"""Journeys that cut off a reply. The fault decides how much of it was streamed by then."""


def assert_cut_off(journey: str) -> Callable[[World, World, str], None]:
    """Return the assertion about a journey of `CUT_OFF`, which holds however much was streamed."""
    return {"halting": _assert_halted, "interrupting": _assert_interrupted, "stopping": _assert_stopped}[journey]


def _assert_interrupted(world: World, expected: World, where: str) -> None:
    _assert_ended(world, where)
    history = world.history()
    said_by_user = Counter(step.text for step in history if step.agent_name == "user")
    assert said_by_user == Counter({"go": 1, "shorter": 1}), where
    assert world.summary().status is TaskStatus.COMPLETED, where
    assert history[-1].text == "in brief", where
    assert all(step.agent_name == "user" or _in_part(step) for step in history[1:-1]), where


def _assert_halted(world: World, expected: World, where: str) -> None:
    _assert_ended(world, where)
    assert world.summary().status is TaskStatus.COMPLETED, where
    history = world.history()
    [halt] = [step.seq for step in history if step.is_interruption]
    assert all(map(_in_part, history[1:halt])), where
    assert [step.text for step in history[halt + 1 :]][:2] == ["go on", "in brief"], where


def _assert_stopped(world: World, expected: World, where: str) -> None:
    _assert_ended(world, where)
    assert world.summary().status is TaskStatus.CANCELLED, where
    assert world.history()[-1].error is not None, where
    assert all(map(_in_part, world.history()[1:-1])), where


def _in_part(step: TaskStep) -> bool:
    """Return True if the step holds a part of the reply, or all of it if the cancellation came too late."""
    return "half a word".startswith(step.text) if step.interrupted else step.text == "half a word"


def _assert_ended(world: World, where: str) -> None:
    assert not [error for error in world.failures if not isinstance(error, TransientError)], where
    task = world.server.held.tasks.get(TASK)
    assert task is None or task.forget_at, f"{where} redis never forgets the task"
    assert_whole(world, where)


def children_of(world: World) -> list[str]:
    """Return the ids of the sub-tasks that the first turn's calls started."""
    return [sub_task_id(TASK, call.id) for call in world.history()[1].calls]
