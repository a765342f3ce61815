"""Maps: a sub-task for each item of a list, without a turn of a model."""

from typing import Any

import pytest

from roboco.domain.history.step import OUTPUT
from roboco.domain.ids import sub_task_id
from roboco.domain.limits import Limits
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from roboco.errors import InvalidTeam
from roboco.ports.model import Request
from tests.support.memory_ports.controlled import search_script, search_team
from tests.support.memory_ports.journeys import assert_whole, member, speaker
from tests.support.memory_ports.model import Script, ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def run(team: Team, script: Script = search_script, **options: Any) -> World:
    world = World(world_parts(script))
    world.submit(team, **options)
    world.settle()
    return world


def children(world: World) -> list[str]:
    return [sub_task_id(TASK, call.id) for step in world.history() for call in step.calls]


def listed(world: World) -> list[dict[str, Any]]:
    """Return the newest list of results, without the ids of the sub-tasks."""
    [*_, last] = [step for step in world.history() if step.is_map and step.has_output]
    return [{name: value for name, value in entry.items() if name != "task_id"} for entry in last.metadata[OUTPUT]]


def state_team(**work: Any) -> Team:
    mapped = {"over": "state.words", "team": "search"} | work
    search = {"name": "search", "agents": [member("finder")]}
    return team_of(agents=[{"name": "searches", "map": mapped}, member("writer")], teams={"search": search})


def test_prompts_and_edges_see_the_list() -> None:
    writer = member("writer") | {"prompt": "You are {{ output.searches | map(attribute='text') | join(' and ') }}."}
    team = search_team().model_copy(update={"agents": (*search_team().agents[:2], *team_of(agents=[writer]).agents)})
    world = run(team)
    assert "You are finder found tides and moon found" in str(world.given.model.requests[-1].messages[0]["content"])


def test_no_more_sub_tasks_run_at_the_same_time_than_the_map_allows() -> None:
    running: list[int] = []
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        if speaker(request) == "finder":
            store = worlds[0].engine.tasks.task_store
            states = [store.load(child, 1) for child in children(worlds[0])]
            running.append(sum(state is not None and not state.position.status.ended for state in states))
        return says("done")

    worlds.append(World(world_parts(script)))
    worlds[0].submit(state_team(parallel=2), state={"words": ["a", "b", "c", "d", "e"]})
    worlds[0].drain()  # without the sweeper: each result starts the next sub-task
    assert worlds[0].summary().status is TaskStatus.COMPLETED
    assert len(running) == 5
    assert max(running) == 2


def test_delegate_has_a_cap_too() -> None:
    world = World(world_parts(_delegating))
    helpers = {"name": "helpers", "agents": [member("helper")]}
    world.submit(team_of(agents=[member("lead", delegates=["helpers"], parallel=1)], teams={"helpers": helpers}))
    for _ in range(3):
        world.deliver(world.dispatcher.queue.popleft())
    assert [world.engine.tasks.task_store.load(child, 1) is not None for child in children(world)] == [True, False]
    world.drain()
    assert [result.result["text"] for result in world.history()[2].results] == ["first", "second"]


def _delegating(request: Request) -> ScriptedReply:
    if speaker(request) == "helper":
        return says(request.messages[1]["content"])
    asked = any(message["role"] == "assistant" for message in request.messages)
    calls = [("delegate", {"team": "helpers", "prompt": prompt}) for prompt in ("first", "second")]
    return says("well") if asked else says("", *calls)


def test_an_empty_list_is_one_step() -> None:
    world = run(state_team(), state={"words": []})
    assert [step.agent_name for step in world.history()] == ["user", "searches", "writer"]
    assert listed(world) == []
    assert world.history()[1].text == "[]"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({}, "the map of searches: state.words is not there: state has no 'words' yet"),
        ({"words": "tides"}, 'the map of searches: state.words is no list but "tides"'),
        ({"words": ["a"] * 101}, "the map of searches: state.words has 101 items, at most 100 are possible"),
    ],
)
def test_a_list_that_is_none_fails_the_task_with_the_cause(state: dict[str, Any], reason: str) -> None:
    world = run(state_team(), state=state)
    assert (world.summary().status, world.summary().reason) == (TaskStatus.FAILED, reason)


def test_on_error_fail_ends_the_task_after_all_have_ended_and_a_retry_starts_again() -> None:
    world = run(search_team(on_error="fail"))
    assert world.summary().status is TaskStatus.FAILED
    assert "the map of searches: 1 of 3 items failed; item 3: task" in world.summary().reason
    assert [result.is_error for result in world.history()[3].results] == [False, False, True]
    retried = world.retry(by="ops")
    world.settle(retried)
    assert [step.agent_name for step in world.history(retried)][5:] == [
        "orchestrator",
        "searches",
        "tool_executor",
        "orchestrator",
    ]


@pytest.mark.parametrize("act", ["stop", "interrupt"])
def test_a_control_ends_all_sub_tasks(act: str) -> None:
    world = World(world_parts(search_script))
    world.submit(search_team())
    while not children(world):
        world.deliver(world.dispatcher.queue.popleft())
    getattr(world, act)(*(["never mind"] if act == "interrupt" else []))
    begun = [child for child in children(world) if world.engine.workspace.summaries.get(child) is not None]
    assert len(begun) == 2
    for task_id in (TASK, *begun):
        world.settle(task_id)
    assert all(world.summary(child).status is TaskStatus.CANCELLED for child in begun)
    assert all(result.is_error for result in world.history()[3].results)
    assert world.summary().status is (TaskStatus.CANCELLED if act == "stop" else TaskStatus.COMPLETED)
    if act == "interrupt":
        assert [step.agent_name for step in world.history()][4:] == ["user", "searches", "writer"]
    assert_whole(world, "")


def test_a_stop_of_a_large_map_writes_nothing_for_sub_tasks_that_were_never_submitted() -> None:
    world = World(world_parts(search_script))
    world.submit(state_team(parallel=2), state={"words": [f"word {number}" for number in range(60)]})
    while sum(world.engine.tasks.task_store.load(child, 1) is not None for child in children(world)) < 2:
        world.deliver(world.dispatcher.queue.popleft())
    world.stop()
    world.settle()
    stopped = [path for path in world.files.held if "stop-tc_" in path]
    assert (len(children(world)), len(stopped)) == (60, 4)
    for child in children(world)[:2]:
        world.settle(child)
        assert world.summary(child).status is TaskStatus.CANCELLED
    assert world.summary().status is TaskStatus.CANCELLED
    assert all(result.is_error for result in world.history()[2].results)


def test_a_list_that_is_too_large_has_errors_in_place_of_its_large_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roboco.domain.decision.turn_without_model.MAX_ANSWER_BYTES", 900)
    long = says("long " * 200)
    world = run(
        state_team(),
        lambda request: long if "big" in str(request.messages[1]) else says("short"),
        state={"words": ["big", "small"]},
    )
    large, small = listed(world)
    assert "bytes are too many for this list; sub-task " in large["error"]
    assert small == {"item": "small", "text": "short"}


@pytest.mark.parametrize(("agents", "last"), [(2, "writer"), (1, "user")])
def test_a_limit_at_a_map_is_wrapped_up_by_an_agent_with_a_model(agents: int, last: str) -> None:
    team = state_team()
    limits = Limits(max_steps=1, at_limit="wrap_up")
    world = run(team.model_copy(update={"agents": team.agents[:agents], "limits": limits}), state={"words": ["a"]})
    assert world.summary().status is TaskStatus.COMPLETED
    assert [step.agent_name for step in world.history() if step.error is None][-1] == last
    assert not any(step.is_map for step in world.history())


@pytest.mark.parametrize(
    ("agent", "mistake"),
    [
        ({"map": {"over": "output.absent", "team": "search"}}, "agents[1].map.over: no agent 'absent' with an output"),
        ({"map": {"over": "state.x", "team": "absent"}}, "agents[1].map.team: no team 'absent', possible are 'search'"),
        ({"map": {"over": "words", "team": "search"}}, "agents[1].map.over: write output.AGENT, output.AGENT.FIELD"),
        (
            {"map": {"over": "state.x", "team": "search", "parallel": 101}},
            "agents[1].map.parallel: Input should be less",
        ),
        (
            {"map": {"over": "state.x", "team": "search"}, "tools": []},
            "agents[1].tools: an agent with a map has no turn",
        ),
        ({}, "agents[1].prompt: needs prompt, prompt_file, function"),
        (
            {"map": {"over": "state.x", "team": "search"}, "handoffs": ["planner"]},
            "agents[1].handoffs: an agent with a",
        ),
    ],
)
def test_mistakes_in_a_map_are_named(agent: dict[str, Any], mistake: str) -> None:
    search = {"name": "search", "agents": [member("finder")]}
    data = {"name": "t", "agents": [member("planner"), {"name": "m"} | agent], "teams": {"search": search}}
    with pytest.raises(InvalidTeam) as refused:
        validate_team(data)
    assert any(one.startswith(mistake) for one in refused.value.mistakes), refused.value.mistakes
