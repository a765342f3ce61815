"""Rehearsal: a simulation of a team with the recorded replies, results and messages of a task.

    recording ─► decide (pure) ─┬─► the next recorded turn of that agent
                   ▲            ├─► the recorded results of these calls, by tool and arguments
                   │            ├─► the next recorded message of the user
                   └── step ◄───┘                  until it ends, or a needed recording is missing

No model, tool or server is called. If the team chooses differently than the recorded one did, the simulation continues
as long as there are recordings for its choice.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roboco.domain.canonical_json import canonical
from roboco.domain.decision.action import AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.decision.router import Router, route
from roboco.domain.decision.situation import Situation
from roboco.domain.history.history import History
from roboco.domain.history.part import ToolCall, ToolResultPart
from roboco.domain.history.state import fold
from roboco.domain.history.step import TOOL_EXECUTOR, TaskStep
from roboco.domain.inbox.item import Item
from roboco.domain.replay.evidence import TAIL, RecordedCall, ask
from roboco.domain.replay.recording import Arrival, Recording
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team

_MISSING = "nothing is recorded"


@dataclass(frozen=True)
class Rehearsal:
    """The result of a rehearsal."""

    agents: list[str]
    """The agents in the order of their turns.

    An agent without a recorded turn is the last one: "NAME (nothing is recorded)".
    """
    rules: list[str]
    """The rules that chose them."""
    tools: list[str]
    """The calls: "NAME", or "NAME (error)" if a call failed or was refused.

    A call without a recorded result is the last one: "NAME (nothing is recorded)".
    """
    status: str
    """The final status of the task; "running" if a recording was missing."""
    reason: str
    """The reason for the end or the wait."""
    steps: tuple[TaskStep, ...] = field(repr=False, default=())


def rehearse(
    team: Team | Mapping[str, Any], recording: Recording | Mapping[str, Any], router: Router = route
) -> Rehearsal:
    """Return the result of the team with the recorded input. `router` is that of a team with a custom router."""
    cast = team if isinstance(team, Team) else Team.model_validate(team)
    said = recording if isinstance(recording, Recording) else Recording.model_validate(recording)
    return _Stage(cast, said, router).run()


class _Stage:
    """The simulated task so far, and the remaining recordings."""

    def __init__(self, team: Team, recording: Recording, router: Router) -> None:
        self._team, self._router, self._sub_task = team, router, recording.sub_task
        self._steps = list(recording.opening)
        self._state = fold(self._steps)
        self._turns = {turn.agent: deque[int]() for turn in recording.turns}
        self._said = recording.turns
        for index, turn in enumerate(recording.turns):
            self._turns[turn.agent].append(index)
        self._results: dict[tuple[str, str], deque[RecordedCall]] = {}
        for call in recording.calls:
            self._results.setdefault((call.tool, canonical(call.args)), deque()).append(call)
        self._told: dict[str, RecordedCall] = {}
        self._coming = list(recording.arrivals)
        self._inbox: tuple[Item, ...] = ()
        self._exhausted: str | None = None
        self._seconds = 0.0
        self._agents: list[str] = []
        self._rules: list[str] = []
        self._tools: list[str] = []

    def run(self) -> Rehearsal:
        """Continue until the task ends or waits, or a needed recording is missing."""
        while True:
            self._receive()
            history = History(self._state, tuple(self._steps[-TAIL:]))
            if self._last.calls and not self._team.has(self._last.agent_name):
                return self._over(TaskStatus.RUNNING, f"the team has no agent {self._last.agent_name}")
            situation = Situation(self._inbox, {}, self._seconds, self._exhausted, self._sub_task)
            over = self._act(ask(self._team, history, situation, self._router, self._told).action)
            if over is not None:
                return over

    @property
    def _last(self) -> TaskStep:
        return self._steps[-1]

    def _act(self, action: AppendStep | CallTools | End | StartTurn | Wait) -> Rehearsal | None:
        match action:
            case StartTurn():
                return self._speak(action)
            case CallTools():
                missing = [call.tool_name for call in action.calls if call.id not in self._told]
                self._tools += [f"{name} ({_MISSING})" for name in missing]
                return self._over(TaskStatus.RUNNING, f"{_MISSING} of {', '.join(missing) or 'what was called'}")
            case AppendStep():
                self._append(action)
                return None
            case Wait() if self._coming:
                self._take(self._coming.pop(0))
                return None
            case Wait():
                return self._over(action.status, action.route.reason)
            case End():
                return self._over(action.status, action.reason)

    def _speak(self, action: StartTurn) -> Rehearsal | None:
        self._rules.append(action.route.rule)
        left = self._turns.get(action.agent)
        if not left:
            self._agents.append(f"{action.agent} ({_MISSING})")
            return self._over(TaskStatus.RUNNING, f"it is {action.agent}'s turn, of which {_MISSING}")
        self._agents.append(action.agent)
        said = self._said[left.popleft()]
        metadata = {"routing": action.route.record()} | said.metadata
        self._put(action.agent, said.parts, metadata)
        for call in self._last.calls:
            if found := self._results.get(_key(call)):
                self._told[call.id] = found.popleft()
        return None

    def _append(self, action: AppendStep) -> None:
        if action.agent_name == TOOL_EXECUTOR:
            names = {call.id: call.tool_name for call in self._last.calls}
            results = [part.tool_result for part in action.parts if isinstance(part, ToolResultPart)]
            self._tools += [f"{names[one.tool_call_id]}{' (error)' if one.is_error else ''}" for one in results]
        self._put(action.agent_name, action.parts, action.metadata)
        self._inbox = tuple(item for item in self._inbox if item.item_id not in action.item_ids)

    def _put(self, agent_name: str, parts: Any, metadata: dict[str, Any]) -> None:
        seq = len(self._steps)
        self._add(
            TaskStep(
                step_id=f"step_{seq}",
                seq=seq,
                agent_name=agent_name,
                parts=parts,
                created_at=self._steps[0].created_at,
                metadata=metadata,
            )
        )

    def _add(self, step: TaskStep) -> None:
        self._steps.append(step)
        self._state = self._state.after(step)

    def _receive(self) -> None:
        """Apply the inputs for this position. Those that waited for the task to wait are applied then."""
        while self._coming and not self._coming[0].waited and self._coming[0].at <= len(self._steps):
            self._take(self._coming.pop(0))

    def _take(self, arrival: Arrival) -> None:
        if arrival.item is not None:
            self._inbox = (*self._inbox, arrival.item)
        if arrival.step is not None and not self._last.calls:
            self._add(arrival.step.model_copy(update={"seq": len(self._steps)}))
        self._exhausted = arrival.exhausted or self._exhausted
        self._seconds = max(self._seconds, arrival.seconds or 0.0)

    def _over(self, status: TaskStatus, reason: str) -> Rehearsal:
        return Rehearsal(self._agents, self._rules, self._tools, str(status), reason, tuple(self._steps))


def _key(call: ToolCall) -> tuple[str, str]:
    return call.tool_name, canonical(call.args)
