"""workers.alive: what a note says, and what its age says."""

import json
from pathlib import Path

import pytest

from roboco.adapters.celery.pulse_step import write
from workers.alive import problem


@pytest.mark.parametrize(
    ("now", "told", "ending", "words"),
    [
        (101.0, None, False, None),
        (160.0, None, False, None),
        (161.0, None, False, "last seen 61 s ago"),
        (90.0, None, False, "last seen -10 s ago"),
        (101.0, "its pool is stuck", False, "its pool is stuck"),
        (900.0, None, True, None),
    ],
    ids=["fresh", "old enough", "too old", "of before a restart of the machine", "told", "told to end"],
)
def test_note(tmp_path: Path, now: float, told: str | None, ending: bool, words: str | None) -> None:
    note = tmp_path / "agents.json"
    write(note, 100.0, 60.0, told, ending)
    found = problem(note, now)
    assert found is None if words is None else words in str(found)
    assert [path.name for path in tmp_path.iterdir()] == ["agents.json"]
    assert set(json.loads(note.read_text())) == {"time", "limit", "problem", "ending"}


def test_no_note(tmp_path: Path) -> None:
    assert "it has not begun to consume" in str(problem(tmp_path / "agents.json", 0.0))
