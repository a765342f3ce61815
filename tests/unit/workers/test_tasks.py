"""The Celery tasks that accept messages from outside pass them to the handler of their name."""

from types import SimpleNamespace
from typing import Any

import pytest

from roboco.adapters.celery.names import SEND_TASK
from roboco.engine.intake import guard
from roboco.workers import tasks


def test_a_message_from_outside_reaches_its_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "handle", lambda *command: handled.append(command))
    monkeypatch.setattr(tasks, "CeleryMessage", lambda engine, request: None)
    monkeypatch.setattr(guard, "process", lambda engine, message, accept: accept())
    monkeypatch.setattr(tasks, "message_result", lambda result: None)

    class ProcessEngine:
        settings = "settings"

        def __call__(self) -> str:
            return "engine"

    task = SimpleNamespace(request=SimpleNamespace(id="id-1"))
    arguments = {"task_id": "task_1", "message": "Hello"}
    tasks._handler(ProcessEngine(), SEND_TASK)(task, **arguments)  # type: ignore[arg-type]  # a fake of two members

    assert handled == [("engine", "settings", SEND_TASK, arguments, "id-1")]
