"""OpenTeams: the teams of open tasks, for displays of their rate limits."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from roboco.domain.team.team import Team
from roboco.errors import RobocoError, TransientError

MAX_NEW_TEAMS: Final = 5
"""Teams that are read from the workspace for one picture. The others follow with the next pictures."""
READ_RETRY_DELAY: Final = 30.0
"""Seconds for which no team is read after the workspace did not answer, so that few pictures wait for it."""


class OpenTeams:
    """The teams of the tasks of the last picture. Threads may share it: at worst, two of them read the same team."""

    def __init__(self, read: Callable[[str], Team], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._known: dict[str, Team | None] = {}
        self._reads_from = float("-inf")

    def update(self, task_ids: Iterable[str]) -> dict[str, Team]:
        """Return the known teams of these tasks, after reading a few more. A team that cannot be read is left out.

        If the workspace does not answer, return the known ones, and try again with a later picture.
        """
        before, known, reads = self._known, dict[str, Team | None](), 0
        for task_id in task_ids:
            if task_id in before:
                known[task_id] = before[task_id]
            elif reads < MAX_NEW_TEAMS and self._clock() >= self._reads_from:
                reads += 1
                self._try_to_read(task_id, known)
        self._known = known
        return {task_id: team for task_id, team in known.items() if team is not None}

    def _try_to_read(self, task_id: str, known: dict[str, Team | None]) -> None:
        try:
            known[task_id] = self._read(task_id)
        except TransientError:
            self._reads_from = self._clock() + READ_RETRY_DELAY
        except (RobocoError, OSError):
            known[task_id] = None
