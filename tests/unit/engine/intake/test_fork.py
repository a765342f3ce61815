"""Forks: new tasks with the first steps of others."""

import json
from typing import Any

import pytest

from roboco.domain.history.part import Artifact, ToolResult
from roboco.domain.history.step import verify_chain
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.ids import fork_item_id
from roboco.domain.inbox.item import UserMessage
from roboco.domain.paths import artifact_path, lineage_path, team_path
from roboco.domain.status import TaskStatus
from roboco.engine.intake.fork import ForkRequest, fork
from roboco.errors import TransientError, UsageError
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.journeys import CUSTOM, FAILING, GRAPH, SEQUENTIAL, TOOLS, member, speaker
from tests.support.memory_ports.model import said
from tests.support.memory_ports.watch import Crash, Fault
from tests.support.memory_ports.world import TASK, World, team_of
from tests.unit.engine.test_receive import die

FORK = "fork_1"


def forked(world: World, seq: int | None = None, text: str | None = None, **wished: Any) -> None:
    """Fork the task, as often as it takes to get an answer."""
    message = (
        None if text is None else UserMessage(item_id=fork_item_id(FORK), created_at=world.engine.now(), text=text)
    )
    for _ in range(3):
        try:
            fork(world.engine, ForkRequest(TASK, FORK, seq, message, **wished))
        except TransientError:
            continue
        except Crash:
            world.engine = world.process()
            continue
        return
    raise AssertionError("three times without an answer")


def ended(journey: Any = GRAPH) -> World:
    return journey.run(journey.world())  # type: ignore[no-any-return]


def said_in(world: World, task_id: str = FORK) -> list[tuple[str, str]]:
    return [(step.agent_name, step.text) for step in world.history(task_id)]


def test_a_fork_begins_with_the_same_steps_and_goes_on() -> None:
    world = ended(SEQUENTIAL)
    source = list(world.histories.lines(TASK))
    forked(world, 2, "another way")
    world.settle(FORK)
    assert list(world.histories.lines(FORK))[:3] == source[:3]
    assert said_in(world)[3] == ("user", "another way")
    assert world.history(FORK)[-1].agent_name == "second"
    assert verify_chain(world.histories.lines(FORK)) == len(world.history(FORK))
    assert world.summary(FORK).status is TaskStatus.COMPLETED
    assert list(world.histories.lines(TASK)) == source
    assert world.engine.frozen_teams.fork_of(FORK).seq == 2  # type: ignore[union-attr]


def test_without_a_message_it_does_the_same_from_there() -> None:
    world = ended()
    forked(world, 2)
    world.settle(FORK)
    assert said_in(world) == said_in(world, TASK)


def test_a_task_that_failed_goes_on_from_its_last_good_step() -> None:
    world = ended(FAILING)
    assert world.summary().status is TaskStatus.FAILED
    world.given.model.script = lambda request: said(f"{speaker(request)} is well again")
    with pytest.raises(UsageError, match="step 2 ended the task; fork at an earlier one"):
        forked(world, 2)
    forked(world)
    world.settle(FORK)
    assert said_in(world) == [("user", "go"), ("first", "all is well"), ("second", "second is well again")]
    assert world.summary(FORK).status is TaskStatus.COMPLETED


def test_calls_are_taken_with_their_results() -> None:
    world = ended(TOOLS)
    before = len(world.given.toolbox.runs)
    forked(world, 1)
    world.settle(FORK)
    assert world.history(FORK)[2] == world.history()[2]
    calls = [call.id for call in world.history()[1].calls]
    assert not [context for context in world.given.toolbox.runs[before:] if context.call_id in calls]


def test_calls_that_wait_for_results_cannot_be_taken() -> None:
    world = TOOLS.world()
    world.submit(TOOLS.team)
    for _ in range(2):
        world.deliver(world.dispatcher.queue.popleft())
    with pytest.raises(UsageError, match="step 1 has calls without results"):
        forked(world, 1)
    forked(world, 0)
    world.settle(FORK)
    world.settle()
    assert said_in(world) == said_in(world, TASK)


@pytest.mark.parametrize("seq", [-1, 7, 100])
def test_there_must_be_such_a_step(seq: int) -> None:
    with pytest.raises(UsageError, match="the task has the steps 0 to"):
        forked(ended(), seq)


def test_there_must_be_such_a_task() -> None:
    world = ended()
    with pytest.raises(UsageError, match="no task 'other'"):
        fork(world.engine, ForkRequest("other", FORK))
    with pytest.raises(UsageError, match="task id"):
        fork(world.engine, ForkRequest(TASK, "../x"))
    with pytest.raises(UsageError, match="can be forked for its own tenant only, not as 'mine'"):
        fork(world.engine, ForkRequest("acme:1", "mine"))


def test_the_same_fork_again_is_the_same_task() -> None:
    world = ended()
    forked(world, 1, "more")
    forked(world, 1, "more")
    world.settle(FORK)
    forked(world, 1, "more")
    world.settle(FORK)
    assert [text for name, text in said_in(world) if name == "user"] == ["go", "more"]
    others: list[dict[str, Any]] = [{"seq": 2}, {"text": "less"}, {"team": SEQUENTIAL.team}]
    for other in others:
        wished: dict[str, Any] = {"seq": 1, "text": "more"} | other
        with pytest.raises(UsageError, match=r"other content already|different content"):
            forked(world, **wished)
    with pytest.raises(UsageError, match="other content already"):
        fork(world.engine, ForkRequest(TASK, TASK, 1))


def test_the_same_fork_of_a_release_with_fewer_fields_is_the_same_task() -> None:
    world = ended()
    forked(world, 2)
    data = json.loads(world.files.held[team_path(FORK)])
    world.files.held[team_path(FORK)] = json.dumps({name: data[name] for name in data if name != "limits"}).encode()
    forked(world, 2)
    world.files.held[team_path(FORK)] = json.dumps(data | {"if_busy": "reject"}).encode()
    with pytest.raises(UsageError, match="other content"):
        forked(world, 2)


def test_another_team_goes_on() -> None:
    world = ended(SEQUENTIAL)
    team = team_of(agents=[member("closer")], collaboration_model={"type": "manual"})
    forked(world, text="close it", team=team)
    world.given.model.script = lambda request: said(f"{speaker(request)} closes")
    world.settle(FORK)
    assert said_in(world)[-2:] == [("user", "close it"), ("closer", "closer closes")]
    assert world.status(FORK) is TaskStatus.USER_TURN


def test_another_model_profile_goes_on() -> None:
    models = {"small": {"model": "s", "default": True}, "large": {"model": "l"}}
    world = SEQUENTIAL.world()
    world.submit(team_of(agents=[member("first")], models=models))
    world.settle()
    forked(world, 0, model="large")
    world.settle(FORK)
    assert [request.profile.model for request in world.given.model.requests] == ["s", "l"]
    with pytest.raises(UsageError, match="no profile 'huge' in team 'desk', possible are small, large"):
        forked(world, 0, model="huge")


def test_files_go_along() -> None:
    def keeps(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
        path = artifact_path(context.task_id, "sum.txt")
        world.files.create(path, b"7")
        artifact = Artifact(artifact_id="sum.txt", uri="file://artifacts/sum.txt", mime_type="text/plain")
        return ToolOutcome(result=ToolResult(tool_call_id=context.call_id, result="kept"), artifacts=(artifact,))

    world = TOOLS.world()
    world.given.toolbox.functions = {"add": keeps}
    TOOLS.run(world)
    forked(world, 2)
    assert world.files.held[artifact_path(FORK, "sum.txt")] == b"7"
    world.files.held[artifact_path(TASK, "sum.txt")] = b"changed"
    assert world.files.held[artifact_path(FORK, "sum.txt")] == b"7"


def test_its_time_begins_anew() -> None:
    world = SEQUENTIAL.world()
    world.submit(
        SEQUENTIAL.team.model_copy(update={"limits": SEQUENTIAL.team.limits.model_copy(update={"max_seconds": 60})})
    )
    world.settle()
    world.clock.move(1000)
    forked(world, 1)
    world.settle(FORK)
    assert world.summary(FORK).status is TaskStatus.COMPLETED
    assert (world.summary(FORK).updated_at - world.summary(FORK).created_at).total_seconds() < 60


@pytest.mark.parametrize("after", [False, True])
def test_a_death_at_every_moment(after: bool) -> None:
    expected = ended(CUSTOM)
    forked(expected, 1, "more")
    expected.settle(FORK)
    n, struck = 0, True
    while struck:
        n += 1
        world = ended(CUSTOM)
        world.watch = fault = Fault(n, die, after=after)
        forked(world, 1, "more")
        world.settle(FORK)
        struck = fault.struck
        assert said_in(world) == said_in(expected), n
        assert lineage_path(FORK) in world.files.held
    assert n > 30
