"""FrozenTeams: the team of each task, parsed once for equal files."""

from roboco.domain.paths import team_path
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL


def test_tasks_with_equal_team_files_share_a_team() -> None:
    world = MANUAL.world()
    for task_id, journey in (("a", MANUAL), ("b", MANUAL), ("c", SEQUENTIAL)):
        world.submit(journey.team, task_id=task_id)
    teams = world.process().frozen_teams
    assert teams.get("a") is teams.get("b")
    assert teams.get("a") == MANUAL.team
    assert teams.get("c") == SEQUENTIAL.team


def test_a_team_file_that_differs_is_parsed() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team, task_id="a")
    assert world.process().frozen_teams.get("a").name == "desk"
    world.files.held[team_path("a")] = world.files.held[team_path("a")].replace(b'"desk"', b'"other"')
    assert world.process().frozen_teams.get("a").name == "other"
