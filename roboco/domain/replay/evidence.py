"""Retold: what a recorded history says of what came from outside and from tools, given again as `decide` asks for it.

A call's result is given only once `decide` has the call run, or waits for who answers it. What it answers or refuses
by itself is never given, and so is decided anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.action import Action, AppendStep, CallTools, Wait
from roboco.domain.decision.decide import ATTEMPTS, STOPPED, decide
from roboco.domain.decision.router import Route, Router
from roboco.domain.decision.situation import Situation
from roboco.domain.history.history import History
from roboco.domain.history.part import ArtifactPart, Part, ToolCall, ToolResultPart
from roboco.domain.history.state import RAISED, TaskState
from roboco.domain.history.step import ORCHESTRATOR, USER, TaskStep
from roboco.domain.history.tool_outcome import Outcome, unknown
from roboco.domain.inbox.item import Answer, Item, Message, Raise, Resolution, Stop, Verdict, is_urgent
from roboco.domain.schema import Recorded
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team

TAIL = 64
"""How many of the newest steps `decide` sees, as a coordinator loads them."""
_OWN = ("item_id", "agent", "interrupts", "routing")


class RecordedCall(Recorded):
    """A call and what came of it: its result with the artifacts beside it, in `parts`.

    `resolved` is the id of what told the result from outside, `verdict` what a person said of the call before it ran.
    `closed`: nobody waited for the result any more. `usage` is what sub-tasks have used.
    """

    tool: str
    args: dict[str, Any]
    parts: tuple[Part, ...]
    resolved: str = ""
    verdict: dict[str, Any] | None = None
    closed: bool = False
    usage: dict[str, Any] = {}

    @property
    def from_outside(self) -> bool:
        """Whether somebody outside told the result, and not just whether the call may run."""
        return self.resolved != "" and (self.verdict is None or self.verdict.get("item_id") != self.resolved)

    @property
    def denied(self) -> bool:
        """Whether a person did not approve the call."""
        return self.verdict is not None and not self.verdict.get("approved")

    def outcome(self, call: ToolCall) -> Outcome:
        """What it came to, as the outcome of this call."""
        results = [part.tool_result for part in self.parts if isinstance(part, ToolResultPart)]
        artifacts = tuple(part.artifact for part in self.parts if isinstance(part, ArtifactPart))
        result = results[0].model_copy(update={"tool_call_id": call.id})
        return Outcome(result=result, artifacts=artifacts).model_copy(update={"usage": self.usage})


Told = Mapping[str, RecordedCall]
"""What came of the calls of a step, by their ids."""


@dataclass(frozen=True)
class Asked:
    """What `decide` chose in the end, and what it had others do before it could."""

    action: Action
    before: tuple[Action, ...] = ()


def prefixes(steps: Sequence[TaskStep]) -> Iterator[History]:
    """What `decide` saw before each position from 1 on, and after the last step."""
    state = TaskState()
    for end, step in enumerate(steps, 1):
        state = state.after(step)
        yield History(state, tuple(steps[max(0, end - TAIL) : end]))


def ask(team: Team, history: History, situation: Situation, router: Router, told: Told) -> Asked:
    """What `decide` chooses, given what came of the calls for which it asks."""
    router = _safe(team, router)
    if situation.ended is not None:
        situation = _with_all(situation, history.last, told)
    before: tuple[Action, ...] = ()
    while True:
        action = decide(team, history, situation, router)
        more = _given(history.last, action, situation, told)
        if more == situation:
            return Asked(action, before)
        before, situation = (*before, action), more


def _safe(team: Team, router: Router) -> Router:
    """The router; as for workers, whatever a user's own raises is a route to nowhere that says why."""
    model = team.collaboration_model
    if not isinstance(model, Custom):
        return router

    def routed(team: Team, history: History) -> Route:
        try:
            return router(team, history)
        except Exception as error:  # a function of the user's may raise anything
            return Route("", model.router, "failed", f"{type(error).__name__}: {error}"[:1000])

    return routed


def arrival(step: TaskStep) -> Item | None:
    """What came from outside and became this step; None if nothing did."""
    item_id = step.metadata.get("item_id")
    if not isinstance(item_id, str):
        return None
    if step.agent_name == USER:
        return Message(
            item_id=item_id,
            created_at=step.created_at,
            text=step.text,
            agent=step.metadata.get("agent"),
            interrupts=step.metadata.get("interrupts") is True,
            brought={name: value for name, value in step.metadata.items() if name not in _OWN},
        )
    if step.agent_name == ORCHESTRATOR and step.error is not None and step.error.code == STOPPED:
        return Stop(item_id=item_id, created_at=step.created_at, reason=step.error.message)
    if step.agent_name == ORCHESTRATOR and isinstance(raised := step.metadata.get(RAISED), dict):
        return Raise(item_id=item_id, created_at=step.created_at, limits=raised)
    return None


def given_up(step: TaskStep) -> str | None:
    """Why no further attempt was made, if the step says so."""
    ended = step.agent_name == ORCHESTRATOR and step.error is not None and step.error.code == ATTEMPTS
    return step.error.message if ended and step.error is not None else None


def results_of(team: Team, history: History, step: TaskStep, after: TaskStep | None) -> tuple[Situation, Told]:
    """What had come when the step of results was made, and what came of the calls; `after` is the step behind it.

    An interruption or end that stands in that step counts if it closed one of the calls.
    """
    told = _told(history.last, step)
    end = _end_of(after)
    if end.ended is None:
        return Situation(), told
    alone = decide(team, history, end)
    results = alone.parts if isinstance(alone, AppendStep) else ()
    closed = {part.tool_result.tool_call_id: part.tool_result for part in results if isinstance(part, ToolResultPart)}
    same = {one.tool_call_id for one in step.results if closed.get(one.tool_call_id) == one}
    if not any(one.tool_call_id in same and end.ended in (one.error or "") for one in step.results):
        return Situation(), told
    return end, {name: one.model_copy(update={"closed": name in same}) for name, one in told.items()}


def _end_of(after: TaskStep | None) -> Situation:
    if after is None:
        return Situation()
    item = arrival(after)
    return Situation(() if item is None or not is_urgent(item) else (item,), exhausted=given_up(after))


def _of_sub_tasks(step: TaskStep) -> dict[str, Any]:
    """What the sub-tasks of a step of results have used: what it tells without the prices of other tools."""
    usage = dict(step.metadata.get("usage") or {})
    tools = step.metadata.get("tools") or {}
    if paid := sum(one.get("cost", 0.0) for name, one in tools.items() if name != DELEGATE):
        usage["cost"] = round(usage.get("cost", 0.0) - paid, 9)
    return usage


def _told(asked: TaskStep, step: TaskStep) -> Told:
    usage = _of_sub_tasks(step)
    told: dict[str, RecordedCall] = {}
    for call in asked.calls:
        parts = tuple(_parts_of(step, call))
        if not parts:
            continue
        told[call.id] = RecordedCall(
            tool=call.tool_name,
            args=call.args,
            parts=parts,
            resolved=(step.metadata.get("resolved") or {}).get(call.id, ""),
            verdict=(step.metadata.get("approvals") or {}).get(call.id),
            usage=usage if call.tool_name == DELEGATE else {},
        )
        usage = {} if call.tool_name == DELEGATE else usage  # of several sub-tasks the step tells the sum
    return told


def _parts_of(step: TaskStep, call: ToolCall) -> Iterator[Part]:
    """The result of the call, and the artifacts that stand behind it."""
    for index, part in enumerate(step.parts):
        if isinstance(part, ToolResultPart) and part.tool_result.tool_call_id == call.id:
            yield part
            yield from takewhile(lambda one: isinstance(one, ArtifactPart), step.parts[index + 1 :])


def _given(asked: TaskStep, action: Action, situation: Situation, told: Told) -> Situation:
    """The situation with what came of that for which the action asks; the same one if nothing is recorded of it."""
    if isinstance(action, Wait):
        calls = [call for call in asked.calls if call.id in action.calls]
    else:
        calls = list(action.calls) if isinstance(action, CallTools) else []
    for call in calls:
        one = told.get(call.id)
        if one is None or one.closed:
            continue
        if isinstance(action, Wait):
            situation = _with_item(situation, _word(asked, action, situation, (call, one)))
        elif one.from_outside and call.tool_name == DELEGATE:
            situation = _with_item(situation, _answer(asked, call, one))
        elif one.from_outside:
            situation = _with_outcome(situation, call, unknown(call.id, "nobody knows", "ask"))
        elif not one.denied:
            situation = _with_outcome(situation, call, one.outcome(call))
    return situation


def _word(asked: TaskStep, wait: Wait, situation: Situation, about: tuple[ToolCall, RecordedCall]) -> Item | None:
    """What somebody outside said of the call, if the wait is for that."""
    call, one = about
    if wait.status is TaskStatus.CLIENT_TOOL_TURN:
        return _answer(asked, call, one) if one.from_outside else None
    if wait.status is not TaskStatus.APPROVAL:
        return None
    if call.id in situation.outcomes:
        return _resolution(asked, call, one) if one.from_outside else None
    return _verdict(asked, call, one)


def _with_all(situation: Situation, asked: TaskStep, told: Told) -> Situation:
    """The situation with all that came of the calls before nobody waited for the others any more."""
    for call in asked.calls:
        one = told.get(call.id)
        if one is None or one.closed:
            continue
        situation = _with_item(situation, _verdict(asked, call, one))
        if one.from_outside:
            situation = _with_item(situation, _answer(asked, call, one))
        elif not one.denied:
            situation = _with_outcome(situation, call, one.outcome(call))
    return situation


def _with_item(situation: Situation, item: Item | None) -> Situation:
    if item is None or any(_about(one) == _about(item) for one in situation.inbox):
        return situation
    return replace(situation, inbox=(*situation.inbox, item))


def _about(item: Item) -> tuple[str, str]:
    return item.kind, getattr(item, "call_id", item.item_id)


def _with_outcome(situation: Situation, call: ToolCall, outcome: Outcome) -> Situation:
    if call.id in situation.outcomes:
        return situation
    return replace(situation, outcomes={**situation.outcomes, call.id: outcome})


def _answer(asked: TaskStep, call: ToolCall, one: RecordedCall) -> Answer:
    return Answer(
        item_id=one.resolved, created_at=asked.created_at, call_id=call.id, at_seq=asked.seq, outcome=one.outcome(call)
    )


def _verdict(asked: TaskStep, call: ToolCall, one: RecordedCall) -> Verdict | None:
    if one.verdict is None:
        return None
    about = {"call_id": call.id, "at_seq": asked.seq, "created_at": asked.created_at}
    return Verdict.model_validate(one.verdict | about)


def _resolution(asked: TaskStep, call: ToolCall, one: RecordedCall) -> Resolution:
    result = one.outcome(call).result
    return Resolution(
        item_id=one.resolved,
        created_at=asked.created_at,
        call_id=call.id,
        at_seq=asked.seq,
        happened=not result.is_error,
        result=result.result,
    )
