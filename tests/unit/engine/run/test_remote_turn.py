"""The record of a message to a remote agent: of all attempts at a turn one sends it."""

from typing import Any

import pytest

from roboco.engine.run.remote_turn import RemoteTurn
from roboco.errors import ModelError
from roboco.ports.assignment import TurnAssignment
from tests.support.memory_ports.workspace import MemoryFiles

A, B = "https://a.example/a2a", "https://b.example/a2a"


def attempt(files: MemoryFiles, address: str = A) -> RemoteTurn:
    """Return an attempt at the turn."""
    cancellation: Any = None
    return RemoteTurn(files, TurnAssignment("t1", 3, 1, 1), cancellation, address)


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
    assert first.message_id == attempt(files).message_id


def test_a_fallback_does_not_look_for_the_task_of_another_agent() -> None:
    files = MemoryFiles()
    first = attempt(files)
    first.begin()
    first.note("r1")
    with pytest.raises(ModelError, match="another remote agent has the message"):
        attempt(files, B).begin()
