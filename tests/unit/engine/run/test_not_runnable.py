"""A worker that lacks the function of a tool leaves its call or turn to another worker, or the task is paused."""

from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.engine.engine import Engine
from roboco.engine.run.attempt_outcome import CallOutcome, TurnOutcome
from roboco.engine.run.not_runnable import MIN_DECLINES
from roboco.engine.run.tool_call import run_call
from roboco.engine.run.turn import run_turn
from roboco.ports.registry import Registration, WorkspaceIdentity
from tests.support.memory_ports.dispatcher import ToolMessage, TurnMessage
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.parts import with_parts
from tests.support.memory_ports.registry import MemoryWorkerRegistry
from tests.support.memory_ports.watch import make_call
from tests.support.memory_ports.world import TASK, WORKER, World, team_of, world_parts

WORKSPACE = WorkspaceIdentity("w", "file:///w")
TEAM: dict[str, Any] = {
    "agents": [{"name": "one", "prompt": "hi", "tools": ["mail", "other"]}],
}


def world_calling(effect: str = "pure", *names: str, approval: list[str] | None = None) -> World:
    """Return a world whose model calls the tools of these names once."""

    def answer(request: Any) -> ScriptedReply:
        answered = any(message["role"] == "tool" for message in request.messages)
        return says("done") if answered else says("", *((name, {}) for name in names or ("mail",)))

    functions = {"mail": lambda args, context: "sent", "other": lambda args, context: "done"}
    world = World(world_parts(answer, functions))
    tools: list[dict[str, Any]] = [
        {"name": "mail", "function": "shop:mail", "effect": effect},
        {"name": "other", "function": "books:other"},
    ]
    for one in tools:
        one["approval"] = "required" if one["name"] in (approval or []) else "never"
    world.submit(team_of(**TEAM, tools=tools))
    register(world, WORKER)
    return world


def register(world: World, name: str, *modules: str) -> None:
    """Register a live worker of the agents and tools pools with these modules."""
    registry = MemoryWorkerRegistry(world.server, world.clock, name)
    assert registry.register(Registration(("agents", "tools"), modules, WORKSPACE), False) is None


def take_next(kind: type[ToolMessage] | type[TurnMessage], world: World) -> Any:
    """Deliver messages until one of the kind is next. Return its assignment."""
    while not isinstance(message := world.dispatcher.queue.popleft(), kind):
        world.deliver(message)
    return message.assignment


def engine_of_worker(world: World, name: str) -> Engine:
    """Return the engine of another worker."""
    return with_parts(world.process(), workers=MemoryWorkerRegistry(world.server, world.clock, name))


def run_count(world: World) -> int:
    return len(world.given.toolbox.runs)


@pytest.mark.parametrize("effect", ["pure", "irreversible"])
def test_a_call_that_no_worker_can_run_pauses_the_task_and_names_tool_module_and_worker(effect: str) -> None:
    world = world_calling(effect)
    register(world, WORKER, "shop")  # with the module of an older release, without the function
    order = take_next(ToolMessage, world)
    world.given.toolbox.missing = {"shop"}
    assert run_call(world.engine, order) is CallOutcome.RELEASED
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    assert run_count(world) == 0
    reason = world.server.held.tasks[TASK].reason
    assert reason == (
        f"tools worker {WORKER!r} cannot run tool 'mail': module 'shop' is not in ROBOCO_TOOL_MODULES, which names no "
        "modules; no other tools worker has the module. Install module 'shop' where the tools workers run, name it "
        "in their ROBOCO_TOOL_MODULES, restart them, and resume the task; or stop the task if its team names the wrong "
        "function"
    )
    assert [step.agent_name for step in world.history()] == ["user", "one"], "the model gets no result"
    world.given.toolbox.missing = set()
    world.resume()
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert run_count(world) == 1


def test_a_call_is_released_to_another_worker_that_has_the_module() -> None:
    world = world_calling("irreversible")
    order = take_next(ToolMessage, world)
    register(world, "other@there", "shop")
    world.given.toolbox.missing = {"shop"}
    assert run_call(world.engine, order) is CallOutcome.RELEASED
    assert world.status() is TaskStatus.RUNNING
    world.given.toolbox.missing = set()  # from here on, the engine is that of the other worker
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert run_count(world) == 1


def test_a_call_that_every_worker_declines_pauses_the_task() -> None:
    world = world_calling()
    take_next(ToolMessage, world)
    world.given.toolbox.missing = {"shop"}
    engines = [world.engine, engine_of_worker(world, "other@there")]
    for number in range(10 * MIN_DECLINES):
        register(world, WORKER)
        register(world, "other@there", "shop")
        assert world.status() is TaskStatus.RUNNING or number >= MIN_DECLINES
        world.engine = engines[number % 2]
        world.drain()
        world.sweep()
    assert world.status() is TaskStatus.PAUSED
    assert "; nor can " in world.server.held.tasks[TASK].reason


def test_a_declined_call_is_dispatched_a_limited_number_of_times_while_another_call_runs() -> None:
    world = world_calling("pure", "mail", "other", approval=["mail"])
    take_next(ToolMessage, world)  # the message of the other call: no worker ever receives it
    mail = world.history()[-1].calls[0].id
    world.decide_approval(mail, True)
    world.given.toolbox.missing = {"shop"}
    dispatched = 0
    for _ in range(20 * MIN_DECLINES):
        register(world, WORKER)
        for _ in range(100):
            if not world.dispatcher.queue:
                break
            message = world.dispatcher.queue.popleft()
            if isinstance(message, ToolMessage):
                dispatched += message.assignment.call_id == mail
                if message.assignment.call_id != mail:
                    continue
            world.deliver(message)
        assert not world.dispatcher.queue, "the coordinator dispatches the call forever"
        world.sweep()
    assert dispatched == MIN_DECLINES


def test_a_pause_that_was_resumed_before_it_was_applied_is_followed_by_another() -> None:
    world = world_calling()
    world.given.toolbox.missing = {"shop"}

    def resume_immediately(name: str, call: Any) -> Any:
        answer = call()
        if name == "inbox.add" and world.status() is TaskStatus.RUNNING and not resumed:
            resumed.append(name)
            world.watch = make_call
            world.resume("at-once")
        return answer

    resumed: list[str] = []
    world.watch = resume_immediately
    world.settle()
    assert resumed
    assert world.status() is TaskStatus.PAUSED


def test_a_turn_whose_tools_no_worker_can_describe_pauses_the_task() -> None:
    world = world_calling()
    world.given.toolbox.missing = {"shop"}
    order = take_next(TurnMessage, world)
    assert run_turn(world.engine, order) is TurnOutcome.DEFERRED
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    reason = world.server.held.tasks[TASK].reason
    assert reason.startswith(f"agents worker {WORKER!r} cannot describe the tools of agent 'one': module 'shop'")
    assert "no other agents worker has the module" in reason
    world.given.toolbox.missing = set()
    world.resume()
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert len(world.history()) == 4


def test_a_lost_registry_of_workers_pauses_no_task() -> None:
    world = world_calling()
    order = take_next(ToolMessage, world)
    world.server.held.workers["tools"].clear()
    world.given.toolbox.missing = {"shop"}
    assert run_call(world.engine, order) is CallOutcome.RELEASED
    world.drain()
    assert world.status() is TaskStatus.RUNNING
