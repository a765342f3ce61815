"""Replay: the action that `decide` chooses at each position of a recorded history, beside the recorded one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from roboco.domain.decision.action import Action, AppendStep, CallTools, End, Route, Situation, StartTurn, Wait
from roboco.domain.decision.answer_checks import GUARD
from roboco.domain.decision.decide import GOALS, LOOP, ROUTER, STOPPED
from roboco.domain.decision.router import Router, route
from roboco.domain.history.interruption import step_or_interruption_after
from roboco.domain.history.state import REMINDED_GOALS, History
from roboco.domain.history.step import (
    GUARDS,
    INTERRUPTION,
    MAP,
    NEW_LIMITS,
    ORCHESTRATOR,
    REMOTE_TASK,
    TOOL_EXECUTOR,
    USER,
    TaskStep,
)
from roboco.domain.recorded.explain import describe, rule_of
from roboco.domain.recorded.recorded_results import RecordedResults, ReplayedDecision, decide_with_results
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Graph
from roboco.domain.team.team import Team
from roboco.domain.usage import UNFINISHED_USAGE
from roboco.lab.replay.evidence import (
    external_item,
    give_up_reason,
    history_prefixes,
    recorded_action,
    recorded_results,
)

Comparison = Literal["same", "other rule", "differs", "depends on the moment"]

_FROM_HISTORY = frozenset({STOPPED, GOALS, LOOP, ROUTER, MAP, GUARD})
"""Codes of errors that follow only from the history."""


@dataclass(frozen=True)
class ReplayStep:
    """The recorded and the chosen action at a position."""

    seq: int | None
    """The position, or None for the final status of the task."""
    recorded: str
    chosen: str
    comparison: Comparison
    note: str = ""


@dataclass(frozen=True)
class Replayer:
    """Replays a recorded task with a team."""

    past: RecordedTask
    team: Team
    router: Router
    other: bool = False
    """True for another team than the recorded one. Then only the acting agents have to be the same."""

    def steps(self) -> Iterator[ReplayStep]:
        """Yield every position of the task's own steps in order, and then its final status."""
        steps, first = self.past.steps, self.past.first_decided
        for recorded in history_prefixes(steps):
            history = with_edges_of(self.team, recorded) if self.other else recorded
            seq = history.state.steps
            if seq == len(steps):
                if (stands := self._final_status(history)) is not None:
                    yield stands
            elif seq >= first:
                yield self._replay_step(history, steps[seq])

    def decide_at(self, history: History, step: TaskStep) -> ReplayedDecision:
        """Return the decision at the position of this recorded step."""
        situation, recorded = self._inputs(history, step)
        return decide_with_results(self.team, history, situation, self.router, recorded)

    def decide_alone(self, history: History, seconds: float = 0.0) -> ReplayedDecision:
        """Return the decision if nothing arrives from outside. `seconds` is the age of the task."""
        situation = Situation(seconds=seconds, sub_task=self.past.sub_task)
        return decide_with_results(self.team, history, situation, self.router, {})

    def _inputs(self, history: History, step: TaskStep) -> tuple[Situation, RecordedResults]:
        after = step_or_interruption_after(self.past.steps, step.seq)
        recorded: RecordedResults = {}
        if step.agent_name == TOOL_EXECUTOR:
            situation, recorded = recorded_results(self.past.team, history, step, after)
        else:
            item = external_item(step)
            situation = Situation(() if item is None else (item,), give_up_reason=give_up_reason(step))
        pending = step.metadata.get(INTERRUPTION) == "turn_replaced"
        return replace(situation, sub_task=self.past.sub_task, pending_turn=pending), recorded

    def _replay_step(self, history: History, step: TaskStep) -> ReplayStep:
        recorded = recorded_action(step)
        if (missing := self._missing_agent(history)) is not None:
            return ReplayStep(step.seq, describe(recorded), "nothing", "differs", missing)
        asked = self.decide_at(history, step)
        if step.is_retry:
            failed = _status(asked.action) is TaskStatus.FAILED
            note = "a person retried the failed task" if failed else "the task has not failed here"
            return ReplayStep(
                step.seq, describe(recorded), describe(asked.action), "same" if failed else "differs", note
            )
        verdict, note = compared(recorded, asked.action, self.other), ""
        if give_up_reason(step) is not None or (verdict == "differs" and not _is_determined(step)):
            verdict, note = "depends on the moment", "time, a worker or a model caused it, which no history records"
        elif verdict == "differs":
            note = self._why_different(history, step)
        return ReplayStep(step.seq, describe(recorded), describe(asked.action, asked.before), verdict, note)

    def _missing_agent(self, history: History) -> str | None:
        """Return the reason why the team cannot answer the calls of the last step, or None."""
        name = history.last.agent_name
        if not history.last.calls or self.team.has_agent(name) or GUARDS in history.last.metadata:
            return None
        return f"team {self.team.name!r} has no agent {name!r}, who made these calls"

    def _why_different(self, history: History, step: TaskStep) -> str:
        if step.by_agent and not self.team.has_agent(step.agent_name):
            return f"team {self.team.name!r} has no agent {step.agent_name!r}"
        if step.agent_name != USER:
            return ""
        return f"without the message: {describe(self.decide_alone(history).action)}"

    def _final_status(self, history: History) -> ReplayStep | None:
        """Return the comparison of the final status with the action after the last step.

        Return None while a worker is active.
        """
        status = self.past.status
        if not (status.ended or status.waiting):
            return None
        recorded: Action = End(status, self.past.reason)
        if status.waiting:
            recorded = Wait(status, Route("", "", "", self.past.reason))
        if (missing := self._missing_agent(history)) is not None:
            return ReplayStep(None, describe(recorded), "nothing", "differs", missing)
        asked = self.decide_alone(history)
        chosen = describe(asked.action, asked.before)
        if _status(asked.action) == status:
            same = self.other or _reason(asked.action) == self.past.reason
            return ReplayStep(None, describe(recorded), chosen, "same" if same else "differs")
        if status is TaskStatus.PAUSED:
            return ReplayStep(None, describe(recorded), chosen, "depends on the moment", "a pause is in no history")
        if status.waiting and isinstance(asked.action, CallTools):
            note = "results are in the history only once all have arrived"
            return ReplayStep(None, describe(recorded), chosen, "depends on the moment", note)
        return ReplayStep(None, describe(recorded), chosen, "differs")


def replay(past: RecordedTask, team: Team | None = None, router: Router = route) -> tuple[ReplayStep, ...]:
    """Return the comparisons at all positions of the recorded task.

    They are for its own team, or for another one with its router.
    """
    judge = Replayer(past, past.team, past.router) if team is None else Replayer(past, team, router, other=True)
    return tuple(judge.steps())


def _is_determined(step: TaskStep) -> bool:
    """Return True if the history determines the step."""
    if step.agent_name != ORCHESTRATOR:
        return True
    if step.error is None:
        return bool({REMINDED_GOALS, NEW_LIMITS, INTERRUPTION, GUARDS} & step.metadata.keys())
    return step.error.code in _FROM_HISTORY


def with_edges_of(team: Team, history: History) -> History:
    """Return the history with the taken edges counted as this team's edges between the same nodes."""
    model = team.collaboration_model
    if not isinstance(model, Graph):
        return history
    ways: dict[tuple[str, str], str] = {}
    names: set[str] = set()
    for node, edges in model.routing_graph.items():
        for index, edge in enumerate(edges):
            names.add(name := f"{node}[{index}] -> {edge.to}")
            ways.setdefault((node, edge.to), name)
    rules: dict[str, int] = {}
    for rule, count in history.state.rules.items():
        node, _, way = rule.partition("[")
        name = rule if rule in names else ways.get((node, way.partition("] -> ")[2]), rule)
        rules[name] = rules.get(name, 0) + count
    return replace(history, state=history.state.model_copy(update={"rules": rules}))


def compared(recorded: Action, chosen: Action, other: bool) -> Comparison:
    """Return the comparison of both actions. For an `other` team only the acting agent has to be the same."""
    if isinstance(recorded, StartTurn) and isinstance(chosen, StartTurn):
        if recorded.agent != chosen.agent:
            return "differs"
        exact = recorded.route.record() == chosen.route.record()
        return _by_rule(recorded, chosen) if other else ("same" if exact else "differs")
    if isinstance(recorded, AppendStep) and isinstance(chosen, AppendStep):
        if recorded.agent_name != chosen.agent_name or not _same_parts(recorded, chosen, other):
            return "differs"
        if other:
            return _by_rule(recorded, chosen)
        return "same" if _same_metadata(recorded, chosen) else "differs"
    return "differs"


def _by_rule(recorded: Action, chosen: Action) -> Comparison:
    before, now = rule_of(recorded), rule_of(chosen)
    if isinstance(chosen, AppendStep) and before != now and not now:
        return "differs"  # it was the user's turn, and is not now
    return "same" if before == now else "other rule"


def _same_parts(recorded: AppendStep, chosen: AppendStep, other: bool) -> bool:
    if not other or recorded.agent_name == TOOL_EXECUTOR or recorded.agent_name == USER:
        return recorded.parts == chosen.parts
    return [getattr(part, "code", "") for part in recorded.parts] == [
        getattr(part, "code", "") for part in chosen.parts
    ]


def _same_metadata(recorded: AppendStep, chosen: AppendStep) -> bool:
    """Return True if the chosen step has all recorded metadata.

    A newer release may add some. The usage of unfinished replies and the end of a remote task are ignored, since no
    decision depends on them.
    """
    names = {*recorded.metadata, "routing"} - {UNFINISHED_USAGE, REMOTE_TASK}
    return all(recorded.metadata.get(name) == chosen.metadata.get(name) for name in names)


def _status(action: Action) -> TaskStatus | None:
    return action.status if isinstance(action, End | Wait) else None


def _reason(action: Action) -> str:
    match action:
        case End():
            return action.reason
        case Wait():
            return action.route.reason
        case _:
            return ""
