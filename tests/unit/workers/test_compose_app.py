"""Dead letters of refused messages are stored even if their count fails."""

from datetime import UTC, datetime

import pytest

from roboco.domain.dead_letter import DeadLetter
from roboco.workers.compose_app import counting_sink


def test_failed_count_does_not_undo_a_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    stored: list[DeadLetter] = []
    letter = DeadLetter(letter_id="l-1", reason="", time=datetime.now(UTC))

    def count(letter: DeadLetter) -> None:
        raise TypeError

    counting_sink(stored.append, count)(letter)
    assert stored == [letter]
    assert caplog.messages == ["dead letter l-1 is stored, but not counted in roboco_refused_messages_total"]
