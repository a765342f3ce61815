"""Refused messages: which become dead letters, and that a failed count does not undo one."""

from types import SimpleNamespace
from typing import Any

import pytest

from roboco.errors import Overloaded, UsageError
from roboco.workers import tasks
from roboco.workers.compose_app import sink_of


@pytest.mark.parametrize(("error", "kept"), [(Overloaded("2 turns wait"), False), (UsageError("no team"), True)])
def test_refused_submission_is_a_dead_letter_unless_too_much_waits(
    monkeypatch: pytest.MonkeyPatch, error: UsageError, kept: bool
) -> None:
    reasons: list[str | None] = []
    monkeypatch.setattr(tasks, "refuse", lambda engine, request, error, reason: reasons.append(reason))
    engine: Any = SimpleNamespace(attempts=SimpleNamespace(end=lambda key: None))

    def accept() -> None:
        raise error

    with pytest.raises(type(error)):
        tasks._take_in(engine, SimpleNamespace(task="roboco.submit"), "message:1", accept)
    assert reasons == [f"refused: {error}" if kept else None]


def test_failed_count_does_not_undo_a_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    stored: list[dict[str, Any]] = []

    def count(record: dict[str, Any]) -> None:
        raise TypeError

    sink_of(stored.append, count)({"letter_id": "l-1"})
    assert stored == [{"letter_id": "l-1"}]
    assert caplog.messages == ["dead letter l-1 is stored, but not counted in roboco_refused_messages_total"]
