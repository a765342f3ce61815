"""A memory under faults and erasures: one entry for each call, and none of an erased task."""

from typing import Any

import pytest

from roboco.domain.memory import Memory, MemoryEntry, owner_path
from roboco.domain.paths import erasure_path
from roboco.engine.operate.erase import LATE_CHECKS
from roboco.engine.record.task_tar import task_tar
from roboco.errors import TransientError
from roboco.ports.memories import change_memory, read_memory
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from roboco.tools.memory_tools import MemoryTools
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import Crash, Fault, Watch, make_call
from tests.support.memory_ports.world import TASK, team_of, world_parts
from tests.support.selection import PARTS, in_parts
from tests.support.unpacked_tar import unpacked
from tests.unit.engine.removal.object_world import ObjectWorld

PATH = owner_path("", "context.user", "alice")
TEAM = team_of(agents=[member("clerk", tools=["remember"])], memory={"of": "context.user"})
ALICE: dict[str, Any] = {"context": {"user": "alice"}}


def remembering(request: Request) -> ScriptedReply:
    return says("noted") if own_turns(request) else says("", ("remember", {"text": "she drinks tea"}))


def memory_world(watch: Watch = make_call, script: Any = remembering) -> ObjectWorld:
    """Return a world whose tools keep memories in its workspace, with calls that the watch sees."""
    world = ObjectWorld(world_parts(script), watch)

    def remember(args: dict[str, Any], context: ToolContext) -> object:
        return MemoryTools(world.engine.workspace.files, None).remember(args["text"], context)  # type: ignore[arg-type]

    world.given.toolbox.functions = {"remember": remember}
    return world


def stored(world: ObjectWorld) -> Memory:
    return read_memory(world.files, PATH)


def ended_task() -> ObjectWorld:
    world = memory_world()
    world.submit(TEAM, **ALICE)
    world.settle()
    entry = stored(world).entries[0].model_dump() | {"id": "mem_other", "task_id": "other", "text": "other"}
    change_memory(world.files, PATH, lambda memory: memory.with_entry(MemoryEntry.model_validate(entry)))
    return world


def erase(world: ObjectWorld, **fields: Any) -> None:
    world.erase(**fields)
    world.finish_erasure()


@in_parts
@pytest.mark.parametrize(("failure", "after"), [(Crash(), True), (TransientError("no answer"), False)])
def test_a_call_remembers_once_wherever_its_worker_dies(failure: BaseException, after: bool, part: int) -> None:
    number, struck = part - PARTS + 1, True
    while struck:
        number += PARTS
        fault = Fault(number, failure, after)
        world = memory_world(fault)
        world.submit(TEAM, **ALICE)
        world.settle()
        assert [entry.text for entry in stored(world).entries] == ["she drinks tea"], number
        assert world.history()[-1].text == "noted", number
        assert world.history()[2].results[0].result == {"id": stored(world).entries[0].id}, number
        struck = fault.struck
    assert number > 30


def test_what_another_task_forgets_before_a_killed_call_is_repeated_stays_forgotten() -> None:
    died = False

    def die_after_the_write(name: str, call: Any) -> Any:
        nonlocal died
        answer = call()
        if name == "files.replace" and call.args[0] == PATH and not died:
            died = True
            change_memory(world.files, PATH, lambda memory: memory.without(lambda _: True))
            raise Crash
        return answer

    world = memory_world(die_after_the_write)
    world.submit(TEAM, **ALICE)
    world.settle()
    assert died
    assert len(world.given.toolbox.runs) == 2
    assert stored(world).entries == ()
    assert world.history()[2].results[0].is_error is False


def test_what_arrives_late_from_an_erased_task_is_removed_by_the_checks() -> None:
    world = ended_task()
    late = stored(world).entries[0].model_dump() | {"id": "mem_late"}
    erase(world)
    change_memory(world.files, PATH, lambda memory: memory.with_entry(MemoryEntry.model_validate(late)))
    world.sweep_until(lambda: erasure_path(TASK) not in world.files.held, LATE_CHECKS[-1] / 10)
    assert [entry.id for entry in stored(world).entries] == ["mem_other"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_memory_that_cannot_be_read_keeps_nothing_else_from_being_erased(at_once: bool) -> None:
    world = ended_task()
    if not at_once:
        erase(world)
    world.files.held[PATH] = b"{garbage"
    if at_once:
        erase(world)
    world.sweep_until(lambda: erasure_path(TASK) not in world.files.held, LATE_CHECKS[-1] / 10)
    assert world.traces() == []
    assert world.receipt().problem.count("cannot be read: remove the file, or restore it") == 1
    assert world.files.held[PATH] == b"{garbage"
    assert world.failures == []


def test_the_retention_keeps_what_its_tasks_remembered_and_a_user_may_still_ask_for_more() -> None:
    world = ended_task()
    erase(world, by="retention", keep_memory=True)
    assert len(stored(world).entries) == 2
    world = ended_task()
    world.erase(by="retention", keep_memory=True)
    erase(world, by="user")
    assert len(stored(world).entries) == 1


def test_an_export_has_what_the_task_remembered() -> None:
    world = ended_task()
    files = unpacked(b"".join(task_tar(world.engine.workspace, TASK)))
    [entry] = Memory.model_validate_json(files["memory.json"]).entries
    assert (entry.text, entry.task_id) == ("she drinks tea", TASK)
    other = memory_world()
    for path, content in files.items():
        other.objects.put(f"{TASK}/{path}", content)
    assert unpacked(b"".join(task_tar(other.engine.workspace, TASK))) == files


def test_a_task_without_an_owner_gets_an_error_and_goes_on() -> None:
    world = memory_world()
    world.submit(TEAM)
    world.settle()
    assert "this task has no memory: submit it with the field" in (world.history()[2].results[0].error or "")
    assert world.history()[-1].text == "noted"


@in_parts
def test_an_erasure_of_the_memory_continues_after_each_crash(part: int) -> None:
    number, struck = part - PARTS + 1, True
    while struck:
        number += PARTS
        world = ended_task()
        world.erase()
        world.watch = fault = Fault(number, Crash(), after=True)
        for _ in range(10):
            world.sweep()
            world.clock.move(31.0)
        world.watch = make_call
        struck = fault.struck
        assert world.receipt().finished_at is not None, number
        assert [entry.id for entry in stored(world).entries] == ["mem_other"], number
        assert world.receipt().remembered == 1, number
    assert number > 30
