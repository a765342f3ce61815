"""A workspace whose history was restored to an earlier step, while the records of its later calls still exist."""

from typing import Any

import pytest

from roboco.domain.ids import approval_id
from roboco.domain.paths import open_marker_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.engine.operate.fill import REFILL_INTERVAL
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.schedule import MemorySchedule
from tests.support.memory_ports.server import MemoryServer
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

CALL_ARGUMENTS, SPACED_ARGUMENTS, OTHER_ARGUMENTS = '{"to": "ann"}', '{ "to":"ann" }', '{"to": "bob"}'
"""The arguments of a call, the same arguments with other spaces, and those of another call."""


class Clerk:
    """A task whose agent makes one call with arbitrary arguments; `runs` are the recipients of its tool."""

    def __init__(self, approval: str = "never") -> None:
        self.arguments = CALL_ARGUMENTS
        self.runs: list[Any] = []
        self.world = World(world_parts(self._script, {"send": self._send}))
        team = team_of(
            agents=[member("clerk", tools=["send"])],
            tools=[{"name": "send", "function": "shop.mail:send", "approval": approval}],
        )
        self.world.submit(team)
        self._files = dict(self.world.files.held)
        self._lines = list(self.world.histories.held[TASK])

    def restore(self, arguments: str) -> None:
        """Restore the history and `task.json`, and nothing else, to the submission, and lose the data of Redis."""
        self.arguments = arguments
        self.world.histories.held[TASK] = list(self._lines)
        for path in (summary_path(TASK), open_marker_path(TASK)):
            self.world.files.held[path] = self._files[path]
        self.world.server = MemoryServer()
        self.world.dispatcher.queue.clear()
        self.world.engine = self.world.process()
        MemorySchedule(self.world.server, self.world.clock).mark_filled(REFILL_INTERVAL)

    def call_id(self) -> str:
        """Return the id of the call that the agent makes."""
        self.world.settle()
        return self.world.history()[1].calls[0].id

    def _script(self, request: Request) -> ScriptedReply:
        return says("done") if own_turns(request) else says("", ("send", self.arguments))

    def _send(self, args: dict[str, Any], context: ToolContext) -> str:
        self.runs.append(args["to"])
        return f"sent to {args['to']}"


@pytest.mark.parametrize(
    ("arguments", "runs"), [(CALL_ARGUMENTS, ["ann"]), (SPACED_ARGUMENTS, ["ann"]), (OTHER_ARGUMENTS, ["ann", "bob"])]
)
def test_a_stored_outcome_applies_only_to_the_same_call(arguments: str, runs: list[str]) -> None:
    clerk = Clerk()
    clerk.call_id()
    clerk.restore(arguments)
    clerk.world.settle()
    assert clerk.runs == runs
    assert clerk.world.history()[2].results[0].result == f"sent to {runs[-1]}"
    assert clerk.world.summary().status is TaskStatus.COMPLETED


@pytest.mark.parametrize("approved", [True, False])
def test_a_pending_approval_applies_only_to_the_same_call(approved: bool) -> None:
    clerk = Clerk(approval="required")
    first = clerk.call_id()
    clerk.world.decide_approval(first, approved)
    clerk.restore(OTHER_ARGUMENTS)
    second = clerk.call_id()
    assert (clerk.world.status(), clerk.runs) == (TaskStatus.APPROVAL, [])
    assert approval_id(first) != approval_id(second)
    clerk.restore(CALL_ARGUMENTS)
    assert clerk.call_id() == first
    assert clerk.world.summary().status is TaskStatus.COMPLETED
    assert clerk.runs == ["ann"] * approved
