"""Dead letters of refused messages are stored even if their count fails."""

from typing import Any

import pytest

from roboco.workers.compose_app import counting_sink


def test_failed_count_does_not_undo_a_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    stored: list[dict[str, Any]] = []

    def count(record: dict[str, Any]) -> None:
        raise TypeError

    counting_sink(stored.append, count)({"letter_id": "l-1"})
    assert stored == [{"letter_id": "l-1"}]
    assert caplog.messages == ["dead letter l-1 is stored, but not counted in roboco_refused_messages_total"]
