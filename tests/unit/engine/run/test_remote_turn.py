"""The records of messages to a remote agent: of all attempts at a turn one sends it, and none after its end."""

import json

import pytest

from roboco.domain.paths import WORKSPACE_FILE
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.coordinate.remote_end import close_turn
from roboco.errors import ModelError
from roboco.ports.remote_task import RemoteRecord, RemoteTask
from roboco.ports.snapshot import Phase, TaskPosition
from tests.support.memory_ports.workspace import MemoryFiles

A, B = "https://a.example/a2a", "https://b.example/a2a"
TEAM = Team.model_validate(
    {
        "name": "desk",
        "agents": [{"name": "far", "prompt": "far"}, {"name": "near", "prompt": "near", "model": "own"}],
        "models": {"own": {"model": "m"}, "far": {"model": "far", "provider": "a2a", "base_url": A, "default": True}},
    }
)


def turn(epoch: int = 1, agent: str = "far") -> TaskPosition:
    """Return the position of the turn."""
    return TaskPosition(epoch, 3, Phase.TURN, TaskStatus.RUNNING, agent=agent)


def attempt(files: MemoryFiles, address: str = A, epoch: int = 1) -> RemoteTask:
    """Return an attempt at the turn."""
    return RemoteTask(files, "t1", 3, epoch, address)


def test_of_all_attempts_one_sends_the_message() -> None:
    files = MemoryFiles()
    first = attempt(files)
    assert first.begin() is None
    with pytest.raises(ModelError, match="it is unknown") as unknown:  # it may have sent it
        attempt(files).begin()
    assert not unknown.value.retryable
    first.note_refused()
    second = attempt(files)
    assert second.begin() is None
    second.note("r1")
    assert attempt(files).begin() == second.begin() == "r1"
    assert first.message_id == second.message_id


def test_a_fallback_does_not_look_for_the_task_of_another_agent() -> None:
    files = MemoryFiles()
    first = attempt(files)
    first.begin()
    first.note("r1")
    with pytest.raises(ModelError, match="another remote agent has the message"):
        attempt(files, B).begin()


def test_two_deployments_have_other_message_ids() -> None:
    ids = set()
    for workspace in ("one", "two"):
        files = MemoryFiles()
        files.put(WORKSPACE_FILE, json.dumps({"id": workspace}).encode())
        sent = attempt(files)
        sent.begin()
        ids.add(sent.message_id)
    assert len(ids) == 2


def test_a_closed_turn_gets_no_message_of_a_late_worker() -> None:
    files = MemoryFiles()
    assert close_turn(files, TEAM, "t1", turn(epoch=5)) is None
    assert close_turn(files, TEAM, "t1", turn(epoch=5)) is None
    assert len(files.held) == 1
    with pytest.raises(ModelError, match="the turn has ended") as ended:
        attempt(files, epoch=5).begin()
    assert not ended.value.retryable
    assert attempt(files, epoch=6).begin() is None  # the step was not stored, and the task goes on
    found = close_turn(files, TEAM, "t1", turn(epoch=6))
    assert found == RemoteRecord()
    assert found.metadata() == {"remote_task": {"state": "unknown"}}
