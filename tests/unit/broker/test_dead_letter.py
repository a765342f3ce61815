"""Dead letters of Celery messages whose content a worker has no memory for."""

from datetime import UTC, datetime
from typing import Any

from celery.app.task import Context

from roboco.broker.dead_letter import dead_letter_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class _Exhausting(dict[str, Any]):
    """Arguments that cannot be read again, as in a process whose memory is exhausted."""

    def __iter__(self) -> Any:
        raise MemoryError

    def keys(self) -> Any:
        raise MemoryError


def test_a_letter_without_a_body_needs_no_memory_for_the_arguments() -> None:
    request = Context(id="m-1", task="roboco.submit", args=[], kwargs=_Exhausting({"prompt": "long"}))
    letter = dead_letter_of(request, "roboco", "3 workers were lost", 3, NOW, with_body=False)
    assert (letter.body, letter.size, letter.truncated) == ("", 0, True)
    assert letter.headers == {"task": "roboco.submit", "id": "m-1"}
    whole = dead_letter_of(Context(id="m-1", task="roboco.submit", args=[], kwargs={}), "roboco", "lost", 3, NOW)
    assert letter.letter_id == whole.letter_id, "a repetition replaces it"
    assert not whole.truncated
