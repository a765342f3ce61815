"""Tenants, priorities and schedules on real workers: the order of turns that wait."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from roboco import Orchestrator, Overloaded, Task, UsageError, parse_team
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import LONG_LEASE, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.redis, pytest.mark.slow]
ECHO = {"name": "echo", "agents": [{"name": "echo", "prompt": "You repeat."}]}
TEAM = parse_team(ECHO)
FLOOD_TASKS = 60


class TurnGate:
    """A model whose turns start and wait until it is opened. `asked` are their prompts in order."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.asked: list[str] = []

    def answer(self, request: Request) -> Reply:
        """Return a reply that the model server holds until the gate is open."""
        self.asked.append(request.last_user)
        return Reply(text=request.last_user, held_until=self.open)


@pytest.fixture
def single_turn_stack(tmp_path: Path) -> Iterator[Stack]:
    """Yield a stack whose agents worker runs one turn at a time."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "echo.yaml").write_text("name: echo\nagents: [{name: echo, prompt: You repeat.}]\n")
    with Stack(tmp_path, agents_concurrency=1, lease_seconds=LONG_LEASE, teams_dir=tmp_path / "teams") as stack:
        yield stack


def client_of_tenant(stack: Stack, tenant: str) -> Orchestrator:
    return Orchestrator(stack.settings.model_copy(update={"tenant": tenant}))


def dispatched_tasks(stack: Stack) -> list[str]:
    """Return the tasks whose turn is dispatched."""
    return [task.task_id for task in stack.orchestrator.tasks() if task.status == "running"]


def test_a_flood_of_one_tenant_does_not_delay_another(single_turn_stack: Stack) -> None:
    gate = TurnGate()
    single_turn_stack.model.script(gate.answer)
    dispatcher = single_turn_stack.orchestrator._engine.services.dispatcher
    with client_of_tenant(single_turn_stack, "flood") as flood, client_of_tenant(single_turn_stack, "other") as other:
        tasks = [flood.run(TEAM, f"flood {number}") for number in range(FLOOD_TASKS)]
        until(
            lambda: len(dispatched_tasks(single_turn_stack)) == FLOOD_TASKS, 60, "all turns of the flood are dispatched"
        )
        tasks += [other.run(TEAM, f"mine {number}") for number in range(3)]
        until(lambda: dispatcher.backlog("other:any") == 3, 60, "the turns of the other tenant wait")
        gate.open.set()
        for task in tasks:
            assert task.result(120).status == "completed"
    assert len(gate.asked) == len(set(gate.asked)) == FLOOD_TASKS + 3
    assert max(gate.asked.index(f"mine {number}") for number in range(3)) < FLOOD_TASKS / 2


def test_turns_of_higher_priority_run_first(single_turn_stack: Stack) -> None:
    gate = TurnGate()
    single_turn_stack.model.script(gate.answer)
    run = single_turn_stack.orchestrator.run
    before = [run(TEAM, f"before {number}") for number in range(8)]  # one runs, some are prefetched, the rest waits
    engine = single_turn_stack.orchestrator._engine
    until(
        lambda: engine.services.dispatcher.backlog("any") >= 1 and len(dispatched_tasks(single_turn_stack)) == 8,
        30,
        "a turn waits",
    )
    later = [
        run(TEAM, f"{priority} {number}", priority=priority)
        for priority in ("low", "normal", "high")
        for number in range(2)
    ]
    until(lambda: len(dispatched_tasks(single_turn_stack)) == 14, 60, "all turns are dispatched")
    until(lambda: engine.services.dispatcher.backlog("any") >= 6, 60, "all later turns wait")
    gate.open.set()
    for task in [*before, *later]:
        assert task.result(60).status == "completed"
    later_ones = [prompt for prompt in gate.asked if not prompt.startswith("before")]
    assert later_ones == ["high 0", "high 1", "normal 0", "normal 1", "low 0", "low 1"]
    assert gate.asked[-2:] == ["low 0", "low 1"]


def test_a_submission_is_refused_while_too_many_turns_wait(single_turn_stack: Stack) -> None:
    gate = TurnGate()
    single_turn_stack.model.script(gate.answer)
    limited = Orchestrator(single_turn_stack.settings.model_copy(update={"max_queued": 3}))
    with limited:
        taken: list[Task] = []

        def is_refused() -> bool:
            try:
                taken.append(limited.run(TEAM, f"task {len(taken)}"))
            except Overloaded as error:
                return "turns wait for workers or their start time, at most 3 may" in str(error)
            return False

        until(is_refused, 60, "a submission is refused")
        gate.open.set()
        for task in taken:
            assert task.result(60).status == "completed"
        until(lambda: limited._engine.services.dispatcher.backlog("any") == 0, 60, "no turn waits")
        assert limited.run(TEAM, "again").result(60).status == "completed"


def test_a_client_of_a_tenant_sees_only_its_own_tasks(single_turn_stack: Stack) -> None:
    single_turn_stack.model.script(lambda request: Reply(text="done"))
    with client_of_tenant(single_turn_stack, "acme") as acme, client_of_tenant(single_turn_stack, "other") as other:
        task = acme.run(TEAM, "go", task_id="order-1")
        assert task.task_id == "acme:order-1"
        assert task.result(60).status == "completed"
        assert acme.task("order-1").history() == acme.task("acme:order-1").history() == task.history()
        assert [summary.task_id for summary in acme.tasks()] == ["acme:order-1"]
        assert list(other.tasks()) == []
        for name in ("acme:order-1", "order-1"):
            with pytest.raises(UsageError, match=r"no task|is not one of tenant"):
                other.task(name)
        assert task.fork(message="again").task_id.startswith("acme:task_")
        with pytest.raises(UsageError, match="dead letters are the operator's"):
            acme.operator.dead_letters()
        with pytest.raises(UsageError, match="is not one of tenant 'acme'"):
            single_turn_stack.orchestrator.task("acme:order-1").fork(task_id="other:mine")
    keys = list(single_turn_stack.orchestrator._client.scan_iter("*order-1*"))
    assert keys
    assert all(str(key).startswith("roboco:{acme:order-1}") for key in keys)
    assert (Path(single_turn_stack.settings.workspace.removeprefix("file://")) / "acme:order-1").is_dir()
