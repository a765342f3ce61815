"""roboco.workers.healthcheck: the problem in a health file, and the age of the file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roboco.broker.health.bootstep import HealthFile
from roboco.workers.healthcheck import find_problem


@pytest.mark.parametrize(
    ("now", "problem", "ending", "expected"),
    [
        (101.0, None, False, None),
        (160.0, None, False, None),
        (161.0, None, False, "last ran 61 s ago"),
        (90.0, None, False, "last ran -10 s ago"),
        (101.0, "its pool is stuck", False, "its pool is stuck"),
        (900.0, None, True, None),
    ],
    ids=["fresh", "old enough", "too old", "before a restart of the machine", "problem", "ending"],
)
def test_a_problem_is_read_from_the_file_or_its_age(
    tmp_path: Path, now: float, problem: str | None, ending: bool, expected: str | None
) -> None:
    path = tmp_path / "agents.json"
    health_file = HealthFile(path, 60.0)
    if ending:
        health_file.write_ending()
    health_file.write(100.0, problem)
    found = find_problem(path, now)
    assert found is None if expected is None else expected in str(found)
    assert [path.name for path in tmp_path.iterdir()] == ["agents.json"]
    assert set(json.loads(path.read_text())) == {"time", "limit", "problem", "ending"}


@pytest.mark.parametrize("interrupted", ["problem", "ending"])
def test_a_signal_during_a_write_keeps_the_mark_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    """The signal handler writes that the worker ends, and the interrupted write keeps this."""
    path = tmp_path / "agents.json"
    health_file = HealthFile(path, 60.0)
    interruptions = [health_file.write_ending]

    def replace(beside: Path, at: Path) -> None:
        while interruptions:
            interruptions.pop()()
        os.rename(beside, at)

    monkeypatch.setattr(os, "replace", replace)
    health_file.write_ending() if interrupted == "ending" else health_file.write(100.0, "its pool is stuck")
    assert not interruptions
    assert json.loads(path.read_text())["ending"]
    assert [found.name for found in tmp_path.iterdir()] == ["agents.json"]


@pytest.mark.parametrize("command", [["-m", "roboco.workers.healthcheck"], ["-m", "roboco.cli.main", "health"]])
def test_health_without_its_setting_names_the_remedy(command: list[str]) -> None:
    """The worker and the command `health` share a folder, which the setting names."""
    environment = {name: value for name, value in os.environ.items() if name != "ROBOCO_HEALTH_DIR"}
    ran = subprocess.run([sys.executable, *command, "app"], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("ROBOCO_HEALTH_DIR is not set here, ")
    assert "set it to a folder of this worker's own" in ran.stderr


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert "it does not consume yet" in str(find_problem(tmp_path / "agents.json", 0.0))
