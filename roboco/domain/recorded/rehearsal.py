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

from roboco.domain.canonical_json import canonical_json
from roboco.domain.decision.action import AppendStep, CallTools, End, Situation, StartTurn, Wait
from roboco.domain.decision.router import Router, route
from roboco.domain.history.part import Part, ToolCall, ToolCallPart, ToolResultPart
from roboco.domain.history.state import History, fold, state_after
from roboco.domain.history.step import FUNCTION, GUARDS, MAP, TOOL_EXECUTOR, TaskStep
from roboco.domain.inbox.item import Item
from roboco.domain.recorded.recorded_call import RecordedCall
from roboco.domain.recorded.recorded_results import decide_with_results
from roboco.domain.recorded.recorded_task import TAIL_LENGTH
from roboco.domain.recorded.recording import ExternalInput, Recording
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
    """Simulate the team with recorded answers, without a model, a tool or a server. Return the result.

    `recording` has the first steps (`opening`), the replies of agents (`turns`), the results of tools (`calls`) and the
    later messages (`inputs`); `roboco export-test TASK` writes one. `router` is the function of a custom router.
    """
    team = team if isinstance(team, Team) else Team.model_validate(team)
    recording = recording if isinstance(recording, Recording) else Recording.model_validate(recording)
    return _Simulation(team, recording, router).run()


class _Simulation:
    """The simulated task so far, and the remaining recordings."""

    def __init__(self, team: Team, recording: Recording, router: Router) -> None:
        self._team, self._router, self._sub_task = team, router, recording.sub_task
        self._steps = list(recording.opening)
        self._state = fold(self._steps)
        self._turns = {turn.agent: deque[int]() for turn in recording.turns}
        self._replies = recording.turns
        for index, turn in enumerate(recording.turns):
            self._turns[turn.agent].append(index)
        self._results: dict[tuple[str, str], deque[RecordedCall]] = {}
        for call in recording.calls:
            self._results.setdefault((call.tool, canonical_json(call.args)), deque()).append(call)
        self._recorded: dict[str, RecordedCall] = {}
        self._inputs = list(recording.inputs)
        self._inbox: tuple[Item, ...] = ()
        self._exhausted: str | None = None
        self._seconds = 0.0
        self._agents: list[str] = []
        self._rules: list[str] = []
        self._tools: list[str] = []

    def run(self) -> Rehearsal:
        """Continue until the task ends or waits, or a needed recording is missing."""
        while True:
            self._apply_due_inputs()
            history = History(self._state, tuple(self._steps[-TAIL_LENGTH:]), self._steps)
            by_team = self._team.has_agent(self._last.agent_name) or GUARDS in self._last.metadata
            if self._last.calls and not by_team:
                return self._result(TaskStatus.RUNNING, f"the team has no agent {self._last.agent_name}")
            situation = Situation(self._inbox, {}, self._seconds, self._exhausted, self._sub_task)
            over = self._act(decide_with_results(self._team, history, situation, self._router, self._recorded).action)
            if over is not None:
                return over

    @property
    def _last(self) -> TaskStep:
        return self._steps[-1]

    def _act(self, action: AppendStep | CallTools | End | StartTurn | Wait) -> Rehearsal | None:
        match action:
            case StartTurn():
                return self._reply(action)
            case CallTools():
                missing = [call.tool_name for call in action.calls if call.id not in self._recorded]
                self._tools += [f"{name} ({_MISSING})" for name in missing]
                return self._result(TaskStatus.RUNNING, f"{_MISSING} of {', '.join(missing) or 'what was called'}")
            case AppendStep():
                self._append(action)
                return None
            case Wait() if self._inputs:
                self._apply(self._inputs.pop(0))
                return None
            case Wait():
                return self._result(action.status, action.route.reason)
            case End():
                return self._result(action.status, action.reason)

    def _reply(self, action: StartTurn) -> Rehearsal | None:
        self._rules.append(action.route.rule)
        left = self._turns.get(action.agent)
        if not left:
            self._agents.append(f"{action.agent} ({_MISSING})")
            return self._result(TaskStatus.RUNNING, f"it is {action.agent}'s turn, of which {_MISSING}")
        self._agents.append(action.agent)
        said = self._replies[left.popleft()]
        metadata = {"routing": action.route.record()} | said.metadata
        self._add_step(action.agent, said.parts, metadata)
        return None

    def _append(self, action: AppendStep) -> None:
        if action.agent_name == TOOL_EXECUTOR:
            names = {call.id: call.tool_name for call in self._last.calls}
            results = [part.tool_result for part in action.parts if isinstance(part, ToolResultPart)]
            self._tools += [f"{names[one.tool_call_id]}{' (error)' if one.is_error else ''}" for one in results]
        elif action.metadata.get(FUNCTION) == "call" or MAP in action.metadata:
            self._agents.append(action.agent_name)
            self._rules.append(str(action.metadata["routing"]["rule"]))
        self._add_step(action.agent_name, self._with_recorded_ids(action), action.metadata)
        self._inbox = tuple(item for item in self._inbox if item.item_id not in action.item_ids)

    def _with_recorded_ids(self, action: AppendStep) -> tuple[Part, ...]:
        """Return the parts of the step. If a function did the same as recorded, its calls have the recorded ids."""
        left = self._turns.get(action.agent_name) if FUNCTION in action.metadata else None
        parts = self._replies[left[0]].parts if left else action.parts
        if left and list(map(_without_id, parts)) == list(map(_without_id, action.parts)):
            left.popleft()
            return parts
        return action.parts

    def _add_step(self, agent_name: str, parts: Any, metadata: dict[str, Any]) -> None:
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
        self._state = state_after(self._state, step)
        for call in step.calls:
            if found := self._results.get(_call_key(call)):
                self._recorded[call.id] = found.popleft()

    def _apply_due_inputs(self) -> None:
        """Apply the inputs for this position. Those that waited for the task to wait are applied then."""
        while self._inputs and not self._inputs[0].waited and self._inputs[0].at <= len(self._steps):
            self._apply(self._inputs.pop(0))

    def _apply(self, arrival: ExternalInput) -> None:
        if arrival.item is not None:
            self._inbox = (*self._inbox, arrival.item)
        if arrival.step is not None and not self._last.calls:
            self._add(arrival.step.model_copy(update={"seq": len(self._steps)}))
        retried = arrival.step is not None and arrival.step.is_retry
        self._exhausted = None if retried else arrival.exhausted or self._exhausted
        self._seconds = max(self._seconds, arrival.seconds or 0.0)

    def _result(self, status: TaskStatus, reason: str) -> Rehearsal:
        return Rehearsal(self._agents, self._rules, self._tools, str(status), reason, tuple(self._steps))


def _without_id(part: Part) -> object:
    return _call_key(part.tool_call) if isinstance(part, ToolCallPart) else part


def _call_key(call: ToolCall) -> tuple[str, str]:
    return call.tool_name, canonical_json(call.args)
