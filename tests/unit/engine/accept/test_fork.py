"""Forks: new tasks with the first steps of other tasks."""

from typing import Any

import pytest

from roboco.domain.history.part import Artifact, ToolOutcome, ToolResult
from roboco.domain.ids import fork_item_id, sub_task_id
from roboco.domain.inbox.item import UserMessage
from roboco.domain.paths import artifact_path, forks_path, lineage_path
from roboco.domain.status import TaskStatus
from roboco.engine.accept.fork import ForkRequest, fork
from roboco.errors import StateConflict, TransientError, UsageError
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.journeys import CUSTOM, GRAPH, SEQUENTIAL, TOOLS, member
from tests.support.memory_ports.watch import Crash, Fault, make_call
from tests.support.memory_ports.world import TASK, World, team_of
from tests.support.selection import PARTS, in_parts

FORK = "fork_1"


def fork_task(world: World, seq: int | None = None, text: str | None = None, **options: Any) -> None:
    """Fork the task, with up to three attempts."""
    message = (
        None if text is None else UserMessage(item_id=fork_item_id(FORK), created_at=world.engine.now(), text=text)
    )
    for _ in range(3):
        try:
            fork(world.engine, ForkRequest(TASK, FORK, seq, message, **options))
        except TransientError:
            continue
        except Crash:
            world.engine = world.process()
            continue
        return
    raise AssertionError("three attempts without an answer")


def ended_world(journey: Any = GRAPH) -> World:
    return journey.run(journey.world())  # type: ignore[no-any-return]


def texts_of(world: World, task_id: str = FORK) -> list[tuple[str, str]]:
    return [(step.agent_name, step.text) for step in world.history(task_id)]


def test_a_fork_at_calls_without_results_is_refused() -> None:
    world = TOOLS.world()
    world.submit(TOOLS.team)
    for _ in range(2):
        world.deliver(world.dispatcher.queue.popleft())
    with pytest.raises(UsageError, match="step 1 has calls without results"):
        fork_task(world, 1)
    fork_task(world, 0)
    world.settle(FORK)
    world.settle()
    assert texts_of(world) == texts_of(world, TASK)


def test_a_repeated_fork_is_the_same_task() -> None:
    world = ended_world()
    fork_task(world, 1, "more")
    fork_task(world, 1, "more")
    world.settle(FORK)
    fork_task(world, 1, "more")
    world.settle(FORK)
    assert [text for name, text in texts_of(world) if name == "user"] == ["go", "more"]
    others: list[dict[str, Any]] = [{"seq": 2}, {"text": "less"}, {"team": SEQUENTIAL.team}]
    for other in others:
        options: dict[str, Any] = {"seq": 1, "text": "more"} | other
        with pytest.raises(UsageError, match=r"other content already|different content"):
            fork_task(world, **options)
    with pytest.raises(UsageError, match="other content already"):
        fork(world.engine, ForkRequest(TASK, TASK, 1))
    with pytest.raises(StateConflict, match="other content already"):
        fork(world.engine, ForkRequest(FORK, TASK, 1))
    assert fork(world.engine, ForkRequest(TASK, "fork_2", 2))
    message = UserMessage(item_id=fork_item_id("fork_2"), created_at=world.engine.now(), text="hey")
    with pytest.raises(StateConflict, match="other content already"):
        fork(world.engine, ForkRequest(TASK, "fork_2", 2, message))
    assert not [path for path in world.files.held if path.startswith(forks_path(FORK))]


def test_a_fork_of_a_task_with_failed_goals_tries_again() -> None:
    world = SEQUENTIAL.world()
    goal = {"name": "answer", "description": "n", "schema": {"type": "object"}}
    world.submit(team_of(agents=[member("a")], limits={"goal_prompts": 0}), goals=[goal])
    world.settle()
    fork_task(world)
    world.settle(FORK)
    assert len(world.given.model.requests) == 2
    assert world.summary(FORK).status is TaskStatus.GOALS_FAILED


def test_forks_with_long_ids_would_share_sub_tasks_and_are_refused() -> None:
    world = ended_world()
    long = ["f" * 80, "f" * 81]
    assert fork(world.engine, ForkRequest(TASK, long[0], 1))
    with pytest.raises(UsageError, match="is too long for a fork: use 80 characters at most"):
        fork(world.engine, ForkRequest(TASK, long[1], 1))
    assert len({sub_task_id(task_id, "tc_1") for task_id in (TASK, long[0])}) == 2


def test_another_model_profile_may_continue_a_fork() -> None:
    models = {"small": {"model": "s", "default": True}, "large": {"model": "l"}}
    world = SEQUENTIAL.world()
    world.submit(team_of(agents=[member("first")], models=models))
    world.settle()
    fork_task(world, 0, model="large")
    world.settle(FORK)
    assert [request.profile.model for request in world.given.model.requests] == ["s", "l"]
    with pytest.raises(UsageError, match="no profile 'huge' in team 'desk', possible are small, large"):
        fork_task(world, 0, model="huge")


def test_a_fork_copies_artifacts() -> None:
    def keep_file(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
        path = artifact_path(context.task_id, "sum.txt")
        world.files.create(path, b"7")
        artifact = Artifact(artifact_id="sum.txt", uri="file://artifacts/sum.txt", mime_type="text/plain")
        return ToolOutcome(result=ToolResult(tool_call_id=context.call_id, result="kept"), artifacts=(artifact,))

    world = TOOLS.world()
    world.given.toolbox.functions = {"add": keep_file}
    TOOLS.run(world)
    fork_task(world, 2)
    assert world.files.held[artifact_path(FORK, "sum.txt")] == b"7"
    world.files.held[artifact_path(TASK, "sum.txt")] = b"changed"
    assert world.files.held[artifact_path(FORK, "sum.txt")] == b"7"


@in_parts
def test_a_fork_survives_a_crash_before_every_port_call(part: int) -> None:
    expected = ended_world(CUSTOM)
    fork_task(expected, 1, "more")
    expected.settle(FORK)
    n, struck = part - PARTS + 1, True
    while struck:
        n += PARTS
        world = ended_world(CUSTOM)
        world.watch = fault = Fault(n, Crash())
        fork_task(world, 1, "more")
        world.settle(FORK)
        struck = fault.struck
        assert texts_of(world) == texts_of(expected), n
        assert lineage_path(FORK) in world.files.held
    assert n > 30


@pytest.mark.parametrize(("seq", "other"), [(2, "repeated"), (1, "refused")])
def test_of_two_forks_at_the_same_time_one_has_created_the_task(seq: int, other: str) -> None:
    answers = set[tuple[str, str]]()
    for number in range(2, 40, 3):
        world, answer = ended_world(SEQUENTIAL), ""

        def answer_to(position: int, world: World = world) -> str:
            world.clock.move(0.001)
            try:
                return "created" if fork(world.process(), ForkRequest(TASK, FORK, position)) else "repeated"
            except StateConflict:
                return "refused"

        def answer_beside(world: World = world) -> None:
            nonlocal answer
            world.watch = make_call
            answer = answer_to(seq)

        world.watch = Fault(number, answer_beside)
        first = answer_to(2)
        if answer:
            answers.add((first, answer))
    assert answers == {("created", other), (other, "created")}
