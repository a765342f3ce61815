"""Refused messages: which become dead letters, and that a failed count does not undo one."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from celery.app.task import Context

from roboco.errors import Overloaded, UsageError
from roboco.workers import tasks
from roboco.workers.compose_app import sink_of


@pytest.mark.parametrize(("error", "kept"), [(Overloaded("2 turns wait"), False), (UsageError("no team"), True)])
def test_refused_submission_is_a_dead_letter_unless_too_much_waits(
    monkeypatch: pytest.MonkeyPatch, error: UsageError | Overloaded, kept: bool
) -> None:
    reasons: list[str | None] = []
    monkeypatch.setattr(tasks, "refuse", lambda engine, request, error, reason: reasons.append(reason))
    engine: Any = SimpleNamespace(attempts=SimpleNamespace(end=lambda key: None))

    def accept() -> None:
        raise error

    with pytest.raises(type(error)):
        tasks._take_in(engine, SimpleNamespace(task="roboco.submit"), "message:1", accept)
    assert reasons == [f"refused: {error}" if kept else None]


def test_submission_while_too_much_waits_is_not_returned_to_its_queue() -> None:
    ended: list[str] = []
    attempts = SimpleNamespace(begin=lambda key: 0, end=ended.append, renew=lambda key: None)
    heartbeat = SimpleNamespace(renewing=lambda renew, lost: nullcontext())
    engine: Any = SimpleNamespace(attempts=attempts, heartbeat=heartbeat, policy=SimpleNamespace(attempts=5))
    engine.telemetry = SimpleNamespace(note=lambda *args: None)

    def accept() -> None:
        raise Overloaded("2 turns wait")

    with pytest.raises(Overloaded):
        tasks._or_again(engine, Context(id="m1", task="roboco.submit", kwargs={}), accept)
    assert ended == ["message:m1"]


def test_failed_count_does_not_undo_a_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    stored: list[dict[str, Any]] = []

    def count(record: dict[str, Any]) -> None:
        raise TypeError

    sink_of(stored.append, count)({"letter_id": "l-1"})
    assert stored == [{"letter_id": "l-1"}]
    assert caplog.messages == ["dead letter l-1 is stored, but not counted in roboco_refused_total"]
