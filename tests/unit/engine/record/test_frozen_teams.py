"""FrozenTeams: the team of each task, parsed once for equal files."""

import json

import pytest

from roboco.domain.paths import lineage_path, recorded_calls_path, team_path
from roboco.domain.team.model_profile import ModelProfile
from roboco.engine.workspace_records import FrozenTeams, team_as_data
from roboco.errors import CorruptHistory
from tests.support.memory_ports.journeys import MANUAL


def test_the_file_names_its_origin_which_readers_ignore() -> None:
    world = MANUAL.world()
    teams = FrozenTeams(world.files, origin={"roboco": "9.9", "model_server": "http://127.0.0.1:1/v1"})
    assert teams.freeze("a", MANUAL.team)
    stored = json.loads(world.files.held[team_path("a")])
    assert stored.pop("origin") == {"roboco": "9.9", "model_server": "http://127.0.0.1:1/v1"}
    assert stored == team_as_data(MANUAL.team)
    assert FrozenTeams(world.files).get("a") == MANUAL.team
    assert FrozenTeams(world.files).freeze("a", MANUAL.team), "a repetition from another release is the same team"


def test_a_file_that_cannot_be_read_is_a_broken_record_with_its_cause_and_remedy() -> None:
    """A worker and the sweeper count no attempt for it, and an operator gets a dead letter."""
    world = MANUAL.world()
    world.submit(MANUAL.team, task_id="a")
    teams = world.process().workspace.frozen_teams
    readers = {
        team_path("a"): teams.get,
        lineage_path("a"): teams.fork_of,
        recorded_calls_path("a"): teams.recorded_calls_of,
    }
    for path, read in readers.items():
        world.files.held[path] = b"{" + b"x" * 5000
        with pytest.raises(CorruptHistory, match=f"{path} cannot be read: .*restore the file") as raised:
            read("a")
        assert len(str(raised.value)) < 700


def test_a_repeated_submission_with_other_looked_up_prices_keeps_the_first_ones() -> None:
    world = MANUAL.world()
    models = {"m": ModelProfile(model="x", price="auto", price_in=1.0, price_out=2.0, default=True)}
    team = MANUAL.team.model_copy(update={"models": models})
    later = team.model_copy(update={"models": {"m": models["m"].model_copy(update={"price_in": 3.0})}})
    other = team.model_copy(update={"models": {"m": models["m"].model_copy(update={"model": "y"})}})
    teams = world.process().workspace.frozen_teams
    assert teams.freeze("a", team)
    assert world.process().workspace.frozen_teams.freeze("a", later)
    again = world.process().workspace.frozen_teams
    assert again.freeze("a", later)
    assert again.get("a").models["m"].price_in == 1.0
    assert not again.freeze("a", other)
