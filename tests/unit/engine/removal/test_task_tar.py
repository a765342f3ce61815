"""Export: the tar of a task has all of its files, and a workspace in which it is unpacked has the task as it was."""

from pathlib import Path

import pytest

from roboco.domain.history.step import verify_chain
from roboco.domain.notification import NotifyTarget
from roboco.domain.paths import push_receivers_path
from roboco.domain.push_notification import PushConfig
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import WorkspaceRecords
from roboco.engine.notifications import set_push_receiver
from roboco.engine.record.task_tar import check_exportable, task_tar
from roboco.engine.workspace_records import FrozenTeams
from roboco.errors import StateConflict, TransientError
from roboco.workspace.open import open_workspace
from tests.support.memory_ports.journeys import GRAPH, MANUAL
from tests.support.memory_ports.world import TASK, world_parts
from tests.support.unpacked_tar import unpacked
from tests.unit.engine.removal.object_world import ObjectWorld, at_rest

ARTIFACT = "artifacts/" + "a" * 128


def ended_task() -> ObjectWorld:
    world = at_rest(GRAPH)
    world.files.put(f"{TASK}/{ARTIFACT}", b"x" * 3000)
    return world


def tar_of(world: ObjectWorld) -> bytes:
    check_exportable(world.engine, TASK)
    return b"".join(task_tar(world.engine.workspace, TASK))


def test_a_tar_has_the_files_of_its_task_and_always_the_same_bytes() -> None:
    world = ended_task()
    tar = tar_of(world)
    assert tar == tar_of(world)
    files = unpacked(tar)
    kept = {path.removeprefix(f"{TASK}/") for path in world.files.held if path.startswith(f"{TASK}/")}
    assert {path for path in kept if not path.startswith("history")} | {"history.jsonl"} == files.keys()
    assert files[ARTIFACT] == b"x" * 3000


def test_an_unpacked_task_is_the_same_in_a_folder(tmp_path: Path) -> None:
    world = ended_task()
    tar = tar_of(world)
    for path, content in unpacked(tar).items():
        (file := tmp_path / TASK / path).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    files, histories = open_workspace(tmp_path.as_uri())
    assert TaskSummary.model_validate_json(files.get(f"{TASK}/task.json") or b"") == world.summary()
    assert verify_chain(histories.lines(TASK)) == len(world.history())
    assert b"".join(task_tar(WorkspaceRecords(files, histories, FrozenTeams(files)), TASK)) == tar


def test_a_tar_has_no_credentials_of_push_receivers() -> None:
    world = ObjectWorld(world_parts(GRAPH.script))
    world.submit(GRAPH.team, notify=[])
    push = PushConfig(id="a", task_id="t", context_id="c", token="canary", authorization="Bearer canary")
    target = NotifyTarget(webhook="https://push.example?key=canary", push=push)
    set_push_receiver(world.engine, TASK, target)
    world.settle()
    assert b"canary" in world.files.held[push_receivers_path(TASK)]
    assert b"canary" not in tar_of(world)


def test_an_open_task_is_not_exported() -> None:
    world = at_rest(MANUAL)
    with pytest.raises(StateConflict, match="only an ended task"):
        tar_of(world)


@pytest.mark.parametrize("content", [b"x" * 2999, b""])
def test_a_file_that_changes_while_it_is_read_ends_the_export(content: bytes) -> None:
    world = ended_task()
    pieces = task_tar(world.engine.workspace, TASK)
    while ARTIFACT.encode() not in next(pieces):
        pass  # the header of the file has its size
    world.files.put(f"{TASK}/{ARTIFACT}", content)
    with pytest.raises(TransientError, match="changed while it was read"):
        b"".join(pieces)
