"""team_lookup: the team that a caller names."""

import json
from pathlib import Path

import pytest

from roboco.client.team_lookup import resolve_sent_team, resolve_team
from roboco.errors import InvalidTeam, UsageError
from roboco.settings import Settings


def write_team(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "desk", "description": name, "agents": [{"name": "x", "prompt": "y"}]}))
    return path


@pytest.mark.parametrize("name", ["e", "notes", "../a", "a.yaml", "", "d/team", "/etc"])
def test_a_message_with_another_string_than_a_name_is_refused(tmp_path: Path, name: str) -> None:
    write_team(tmp_path, "a.yaml")
    write_team(tmp_path, "notes.txt")
    with pytest.raises(UsageError, match=r"no team .* possible are a$"):
        resolve_sent_team(Settings(teams_dir=tmp_path), name)


def test_a_message_may_hold_the_team_itself(tmp_path: Path) -> None:
    data = json.loads(write_team(tmp_path, "a.yaml").read_text())
    assert resolve_sent_team(Settings(), data) == resolve_team(Settings(), tmp_path / "a.yaml")
    with pytest.raises(InvalidTeam):
        resolve_sent_team(Settings(), tmp_path / "a.yaml")
