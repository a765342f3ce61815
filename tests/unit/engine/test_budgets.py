"""Budgets: the remaining amount is reserved before it is spent, and the policy of a team decides at its limit."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.limits import LimitOverrides
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.accept.control import set_limits
from roboco.engine.engine import Policy
from roboco.errors import ModelError, UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import assert_whole
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import crash_at, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def team(limits: dict[str, Any], **fields: Any) -> Team:
    """Return a team of one agent that answers again and again."""
    return team_of(
        **{
            "agents": [{"name": "one", "prompt": "hi"}],
            "collaboration_model": {"type": "sequential", "rounds": 50},
            "limits": limits,
        }
        | fields
    )


def run(limits: dict[str, Any], said: Any = None, **fields: Any) -> World:
    world = World(world_parts(said or (lambda request: ScriptedReply(("text",), tokens=(10, 5)))))
    world.submit(team(limits, **fields))
    world.settle()
    assert_whole(world, "")
    return world


def change_limits(world: World, item_id: str = "raise1", **limits: Any) -> None:
    set_limits(world.engine, TASK, LimitOverrides.model_validate(limits), item_id)
    world.settle()


@pytest.mark.parametrize(
    ("limits", "turns", "reason"),
    [
        ({"max_cost": 0.05}, 2, "the task has cost 0.04, max_cost is 0.05, and the next turn sends about"),
        ({"max_cost": 0.02}, 1, "the task has cost 0.02, max_cost is 0.02"),
        ({"agents": {"one": {"max_steps": 2}}}, 2, "agent one has 2 steps, max_steps is 2"),
        ({"agents": {"one": {"max_cost": 0.041}}}, 1, "agent one has cost 0.02, max_cost is 0.041, and the next turn"),
    ],
)
def test_each_limit_ends_the_task(limits: dict[str, Any], turns: int, reason: str) -> None:
    models = {"m": {"model": "m", "price_in": 1000, "price_out": 2000}}
    world = run(limits, models=models)
    assert world.summary().status is TaskStatus.FAILED
    assert world.summary().reason.startswith(reason)
    assert len([step for step in world.history() if step.by_agent]) == turns
    assert world.summary().cost == pytest.approx(0.02 * turns)
    assert world.events()[-1]["usage"]["cost"] == world.summary().cost
    assert world.events()[-1]["agents"]["one"]["steps"] == turns


def test_changed_limits_apply_immediately_and_after_a_loss_of_redis() -> None:
    world = run({"max_steps": 3, "at_limit": "pause"})
    world.server.wipe()
    world.settle_for(3)
    change_limits(world, agents={"one": {"max_steps": 4}}, max_steps=50)
    assert world.server.held.tasks[TASK].reason.startswith("agent one has 4 steps, max_steps is 4")
    assert len([step for step in world.history() if step.by_agent]) == 4


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({}, "name at least one"),
        ({"agents": {"absent": {"max_steps": 1}}}, "no agent 'absent'"),
        ({"tools": {"hammer": {"max_calls": 1}}}, "no tool 'hammer'"),
    ],
)
def test_invalid_limits_are_refused(limits: dict[str, Any], error: str) -> None:
    world = run({"max_steps": 3, "at_limit": "pause"})
    with pytest.raises(UsageError, match=error):
        change_limits(world, **limits)


def test_calls_of_a_last_turn_are_not_run() -> None:
    tools = [{"name": "look", "function": "shop.a:look", "effect": "pure"}]
    world = World(world_parts(lambda request: says("", ("look", {})), {"look": lambda args, context: "seen"}))
    agents = [{"name": "one", "prompt": "hi", "tools": ["look"]}]
    world.submit(team({"max_steps": 3, "at_limit": "wrap_up"}, agents=agents, tools=tools))
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert "not run, since this is the last turn" in str(world.history()[-1].results[0].error)
    assert len(world.given.toolbox.runs) == 1


def run_calls(limits: dict[str, Any], calls: int, **spec: Any) -> tuple[World, list[str]]:
    """Return a world whose agent makes this number of calls in one step, and the result or error of each call."""

    def script(request: Any) -> ScriptedReply:
        asked = request.messages[-1]["role"] != "tool"
        return says("", *[("look", {"n": n}) for n in range(calls)]) if asked else says("done")

    tools = [{"name": "look", "function": "shop.a:look", "effect": "pure", "timeout": 10} | spec]
    world = World(world_parts(script, {"look": lambda args, context: args["n"]}))
    world.submit(team(limits, agents=[{"name": "one", "prompt": "hi", "tools": ["look"]}], tools=tools))
    world.settle()
    assert_whole(world, "")
    return world, [str(result.error or result.result) for result in world.history()[2].results]


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"tools": {"look": {"max_calls": 2}}}, "not run: look was called 2 times in this task, max_calls is 2"),
        ({"tools": {"look": {"max_seconds": 20}}}, "not run: the calls of look have used, or may yet use, 20 seconds"),
        ({"tools": {"look": {"max_cost": 0.05}}}, "not run: look has cost, or may yet cost, 0.04, max_cost is 0.05"),
        ({"max_cost": 0.05}, "not run: the task has cost, or may yet cost, 0.04, max_cost is 0.05, and the call costs"),
        ({"max_calls": 2}, "not run: the task has used 2 tool calls, max_calls is 2"),
    ],
)
def test_calls_of_one_step_do_not_exceed_a_limit_together(limits: dict[str, Any], error: str) -> None:
    world, ended = run_calls({"max_steps": 4} | limits, 4, price=0.02)
    assert ended[:2] == ["0", "1"]
    assert all(one.startswith(error) for one in ended[2:])
    assert len(world.given.toolbox.runs) == 2
    assert world.history()[2].metadata["tools"] == {"look": {"calls": 2, "seconds": 0.0, "cost": 0.04}}
    assert world.summary().tools["look"].cost == world.summary().agents["one"].cost == world.summary().cost == 0.04


PRICED_MODELS = {"m": {"model": "m", "price_in": 1000, "price_out": 2000}}


@pytest.mark.parametrize("limits", [{"max_tokens_out": 12}, {"agents": {"one": {"max_tokens_out": 12}}}])
def test_interrupted_answers_are_charged(limits: dict[str, Any]) -> None:
    broken = ModelError("connection", "the connection broke", True)
    world = run(limits, lambda request: ScriptedReply(("12345678" * 2,), error=broken))
    assert [request.max_tokens for request in world.given.model.requests] == [12, 8, 4][
        : world.given.policy.max_attempts
    ]
    assert world.summary().tokens_out <= 12


@pytest.mark.parametrize("ended", ["exhausted", "stopped", "interrupted"])
def test_an_answer_that_is_lost_with_its_worker_is_charged(ended: str) -> None:
    """No worker commits the answer, so the step that takes its place is charged."""
    attempts = 1 if ended == "exhausted" else 5
    model = world_parts(
        lambda request: ScriptedReply(("one tw", "o"), tokens=(10, 5)), policy=Policy(max_attempts=attempts)
    )
    world = World(model, crash_at("leases.emit", after=True))
    world.submit(team({"max_steps": 3}, models=PRICED_MODELS))
    for _ in range(2):
        world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    if ended == "stopped":
        world.stop()
    elif ended == "interrupted":
        world.interrupt("and now?")
    world.settle()
    step = world.history()[1]
    assert step.agent_name == ("user" if ended == "interrupted" else "orchestrator")
    usage = step.metadata["unfinished_usage"]
    sent = usage["tokens_in"]
    assert usage == {"agent": "one", "tokens_in": sent, "tokens_out": 2, "cost": round(sent / 1000 + 0.004, 9)}
    more = [step for step in world.history() if step.by_agent]
    assert world.summary().tokens_in == sent + 10 * len(more)
    assert world.summary().agents["one"].cost == pytest.approx(world.summary().cost)
    assert world.summary().cost == pytest.approx(usage["cost"] + 0.02 * len(more))


def test_a_sub_task_gets_the_budget_that_other_calls_leave() -> None:
    def script(request: Any) -> ScriptedReply:
        if request.messages[0]["content"] != "lead" or request.messages[-1]["role"] == "tool":
            return ScriptedReply(("word",), tokens=(0, 0))
        work = [("delegate", {"team": "helpers", "prompt": "go"})] * 2
        return says("", *work, *[("look", {"n": n}) for n in range(5)])

    helpers = {"name": "helpers", "agents": [{"name": "helper", "prompt": "helper"}]}
    world = World(world_parts(script, {"look": lambda args, context: args["n"]}))
    world.submit(
        team_of(
            agents=[{"name": "lead", "prompt": "lead", "delegates": ["helpers"], "tools": ["look"]}],
            tools=[{"name": "look", "function": "shop.a:look", "effect": "pure", "price": 0.25}],
            teams={"helpers": helpers},
            limits={"max_cost": 2, "tools": {"look": {"max_calls": 4}, "delegate": {"max_cost": 0.8}}},
        )
    )
    world.settle()
    children = [task_id for task_id in world.server.held.tasks if task_id != TASK]
    limits_of_children = {world.engine.workspace.frozen_teams.get(child).limits.max_cost for child in children}
    assert (len(children), limits_of_children) == (2, {0.4})
    assert world.summary().cost == 1.0


def test_the_same_call_with_the_same_result_is_a_loop() -> None:
    tools = [{"name": "look", "function": "shop.a:look", "effect": "pure"}]
    counted: list[int] = []

    def look(args: dict[str, Any], context: Any) -> str:
        counted.append(1)
        return "changes" if len(counted) < 4 and len(counted) % 2 else "same"

    world = World(world_parts(lambda request: says("", ("look", {"at": 1})), {"look": look}))
    agents = [{"name": "one", "prompt": "hi", "tools": ["look"]}]
    world.submit(team({"max_repeats": 3}, agents=agents, tools=tools))
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert world.summary().reason == (
        "look was called 3 times with the same arguments and had the same result each time, max_repeats is 3"
    )
    assert len(counted) == 5


def test_handoffs_without_other_work_are_a_loop() -> None:
    def script(request: Any) -> ScriptedReply:
        me = "two" if request.messages[0]["content"] == "I am two" else "one"
        return says("", ("handoff", {"destination_agent": "one" if me == "two" else "two", "reason": "yours"}))

    agents = [{"name": n, "prompt": f"I am {n}", "handoffs": [o]} for n, o in (("one", "two"), ("two", "one"))]
    world = World(world_parts(script))
    world.submit(team({"max_handoffs": 4, "max_repeats": 0}, agents=agents))
    world.settle()
    assert world.summary().reason == (
        "one and two handed off 4 times in a row with nothing done in between, max_handoffs is 4"
    )


def test_a_mandatory_limit_cannot_be_removed() -> None:
    world = run({"max_steps": 3, "max_cost": 5, "at_limit": "pause"})
    with pytest.raises(UsageError, match="cannot be removed"):
        change_limits(world, max_steps=None)
    change_limits(world, max_cost=None, max_steps=4)
    assert world.server.held.tasks[TASK].reason.startswith("the task has 5 steps, max_steps is 4")


def test_a_wrapped_up_task_with_open_goals_fails_them() -> None:
    world = World(world_parts(lambda request: says("on")))
    goal = {"name": "answer", "description": "the number", "schema": {"type": "object"}}
    world.submit(team({"max_steps": 3, "at_limit": "wrap_up", "goal_prompts": 9}), goals=[goal])
    world.settle()
    assert world.summary().status is TaskStatus.GOALS_FAILED


@pytest.mark.parametrize("limits", [{"max_tokens": 600}, {"max_cost": 0.3}, {"max_tokens_in": 250}])
def test_summaries_count_against_the_limits(limits: dict[str, Any]) -> None:
    def script(request: Any) -> ScriptedReply:
        summarizing = "minutes" in request.messages[0]["content"]
        return ScriptedReply(("text",), tokens=(200, 20) if summarizing else (10, 5))

    models = {"m": {"model": "m", "price_in": 1000, "price_out": 1000}}
    agents = [{"name": "one", "prompt": "hi", "context": {"strategy": "summary", "steps": 4}}]
    world = run({"max_steps": 60} | limits, script, models=models, agents=agents)
    assert world.summary().status is TaskStatus.FAILED
    used = {"max_tokens": world.summary().tokens_in + world.summary().tokens_out, "max_cost": world.summary().cost}
    used["max_tokens_in"] = world.summary().tokens_in
    [(name, limit)] = limits.items()
    assert used[name] <= limit + {"max_cost": 0.23}.get(name, 230)


def _spends_all(request: Request) -> ScriptedReply:
    """Use all tokens that a request may use. The lead and each of its helpers delegates as often as its prompt says."""
    agent, count = str(request.messages[0]["content"]).split()
    asked = any(message["role"] == "assistant" for message in request.messages)
    works = [("delegate", {"team": "helpers", "prompt": f"part {n}"}) for n in range(0 if asked else int(count))]
    spent = 50 if agent == "lead" else request.max_tokens or 10**9
    return replace(says("", *works) if works else says("done"), tokens=(1, spent))


@pytest.mark.parametrize(
    ("how", "parts"), [("map", 30), *(pytest.param(how, 100, marks=pytest.mark.nightly) for how in ("map", "delegate"))]
)
def test_many_sub_tasks_that_spend_all_they_may_keep_the_limit_of_their_submission(how: str, parts: int) -> None:
    """Each helper answers until its part is used up."""
    helpers = {
        "name": "helpers",
        "agents": [{"name": "helper", "prompt": "helper 0"}],
        "collaboration_model": {"type": "sequential", "rounds": 50},
    }
    lead = {"name": "lead", "prompt": f"lead {parts}", "delegates": ["helpers"]}
    mapped = {"name": "lead", "map": {"over": "state.parts", "team": "helpers", "parallel": 100}}
    world = World(world_parts(_spends_all))
    world.submit(
        team_of(
            agents=[mapped if how == "map" else lead],
            teams={"helpers": helpers},
            limits={"max_tokens": 100_000, "max_steps": 1000},
        ),
        state={"parts": [f"part {n}" for n in range(parts)]},
    )
    world.settle()
    tasks = world.server.held.tasks
    assert len(tasks) == 1 + parts
    used = sum(
        step.metadata["usage"]["tokens_in"] + step.metadata["usage"]["tokens_out"]
        for task_id in tasks
        for step in world.history(task_id)
        if step.by_agent and not step.is_map and "usage" in step.metadata
    )
    assert 95_000 < used <= 100_000
    assert world.summary().tokens_in + world.summary().tokens_out == used


def delegate_endlessly(limits: dict[str, Any], **lead: Any) -> World:
    """Return a world whose lead delegates to a team that would never end."""

    def script(request: Any) -> ScriptedReply:
        if request.messages[0]["content"] != "lead" or request.messages[-1]["role"] == "tool":
            return ScriptedReply(("word",), tokens=(100, 100))
        return says("", ("delegate", {"team": "helpers", "prompt": "go"}))

    helpers = {
        "name": "helpers",
        "agents": [{"name": "helper", "prompt": "helper"}],
        "collaboration_model": {"type": "sequential", "rounds": 40},
        "limits": {"at_limit": "pause"},
    }
    world = World(world_parts(script))
    world.submit(
        team_of(
            agents=[{"name": "lead", "prompt": "lead", "delegates": ["helpers"]} | lead],
            teams={"helpers": helpers},
            limits=limits,
        )
    )
    return world


def test_the_usage_of_a_stopped_sub_task_is_charged() -> None:
    world = delegate_endlessly({})
    for _ in range(12):
        world.deliver(world.dispatcher.queue.popleft())
    world.interrupt("enough")
    world.settle()
    assert world.summary().tokens_in > 200
