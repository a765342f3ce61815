"""OpenTeams: few teams are read for a picture, and a store that does not answer delays few pictures."""

from roboco.client.operator.open_teams import MAX_NEW_TEAMS, READ_RETRY_DELAY, OpenTeams
from roboco.domain.team.team import Team
from roboco.errors import CorruptHistory, TransientError
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.journeys import MANUAL

TASKS = [f"task_{number}" for number in range(20)]


class Store:
    """Teams that are read: `error` is raised instead."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.error: Exception | None = None
        self.read: list[str] = []

    def teams(self) -> OpenTeams:
        return OpenTeams(self._read, self.clock.now)

    def _read(self, task_id: str) -> Team:
        self.read.append(task_id)
        if self.error is not None:
            raise self.error
        return MANUAL.team


def test_a_broken_team_is_read_once_and_left_out() -> None:
    store = Store()
    teams = store.teams()
    store.error = CorruptHistory("broken")
    assert not teams.update(TASKS[:2])
    store.error = None
    assert list(teams.update(TASKS[:3])) == [TASKS[2]]


def test_a_store_that_does_not_answer_is_asked_once_in_a_while_and_hides_no_team_for_good() -> None:
    store = Store()
    teams = store.teams()
    assert teams.update(TASKS[:1])
    store.error = TransientError("no answer")
    for _ in range(5):
        assert list(teams.update(TASKS)) == TASKS[:1], "the known ones are shown"
    assert store.read == TASKS[:2]
    store.error = None
    store.clock.move(READ_RETRY_DELAY)
    assert list(teams.update(TASKS)) == TASKS[: 1 + MAX_NEW_TEAMS]
