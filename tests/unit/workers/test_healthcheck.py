"""roboco.workers.healthcheck: what a note says, and what its age says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roboco.adapters.celery.health.health_file import HealthFile
from roboco.workers.healthcheck import find_problem


@pytest.mark.parametrize(
    ("now", "told", "ending", "words"),
    [
        (101.0, None, False, None),
        (160.0, None, False, None),
        (161.0, None, False, "last ran 61 s ago"),
        (90.0, None, False, "last ran -10 s ago"),
        (101.0, "its pool is stuck", False, "its pool is stuck"),
        (900.0, None, True, None),
    ],
    ids=["fresh", "old enough", "too old", "of before a restart of the machine", "told", "told to end"],
)
def test_note(tmp_path: Path, now: float, told: str | None, ending: bool, words: str | None) -> None:
    path = tmp_path / "agents.json"
    note = HealthFile(path, 60.0)
    if ending:
        note.write_ending()
    note.write(100.0, told)
    found = find_problem(path, now)
    assert found is None if words is None else words in str(found)
    assert [path.name for path in tmp_path.iterdir()] == ["agents.json"]
    assert set(json.loads(path.read_text())) == {"time", "limit", "problem", "ending"}


@pytest.mark.parametrize("interrupted", ["tell", "end"])
def test_a_signal_in_the_middle_of_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str) -> None:
    """It says that the worker ends, and that is not taken back."""
    path = tmp_path / "agents.json"
    note = HealthFile(path, 60.0)
    interruptions = [note.write_ending]

    def replace(beside: Path, at: Path) -> None:
        while interruptions:
            interruptions.pop()()
        os.rename(beside, at)

    monkeypatch.setattr(os, "replace", replace)
    note.write_ending() if interrupted == "end" else note.write(100.0, "its pool is stuck")
    assert not interruptions
    assert json.loads(path.read_text())["ending"]
    assert [found.name for found in tmp_path.iterdir()] == ["agents.json"]


@pytest.mark.parametrize("command", [["-m", "roboco.workers.healthcheck"], ["-m", "roboco.cli.main", "health"]])
def test_health_without_its_setting_names_the_remedy(command: list[str]) -> None:
    """A worker and the command that asks for its state have to share a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "ROBOCO_HEALTH_DIR"}
    ran = subprocess.run([sys.executable, *command, "app"], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("ROBOCO_HEALTH_DIR is not set here, ")
    assert "set it to a folder of this worker's own" in ran.stderr


def test_no_note(tmp_path: Path) -> None:
    assert "it does not consume yet" in str(find_problem(tmp_path / "agents.json", 0.0))
