"""Recording: the turns, tool results and user input of a task, separated for simulations."""

from collections.abc import Iterator
from typing import Any

from roboco.domain.decision.action import Wait
from roboco.domain.decision.situation import Situation
from roboco.domain.history.history import History
from roboco.domain.history.part import Part
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.inbox.item import Item
from roboco.domain.replay.describe import choice_of
from roboco.domain.replay.evidence import RecordedCall, arrival, ask, given_up, prefixes, results_of
from roboco.domain.replay.replay import Judge, Past, judged
from roboco.domain.schema import Recorded


class RecordedTurn(Recorded):
    """The content of one turn of an agent."""

    agent: str
    parts: tuple[Part, ...]
    metadata: dict[str, Any] = {}


class Arrival(Recorded):
    """External input, received when the history had `at` steps, or if `waited`, once the task waited for the user.

    Exactly one of the fields after `waited` is set.
    """

    at: int
    waited: bool = False
    item: Item | None = None
    exhausted: str | None = None
    """The reason why no further attempt was made."""
    seconds: float | None = None
    """The age of the task in seconds."""
    step: TaskStep | None = None
    """A step that does not follow from the history."""


class Recording(Recorded):
    """A task in parts: its first steps, and the later turns, calls and inputs, each in order."""

    opening: tuple[TaskStep, ...]
    turns: tuple[RecordedTurn, ...] = ()
    calls: tuple[RecordedCall, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    sub_task: bool = False


def recording_of(past: Past) -> Recording:
    """Return the recording of a recorded task: its own steps, each in its place."""
    first = max(1, past.first)
    opening = tuple(step.model_copy(update={"digest": "", "prev_digest": ""}) for step in past.steps[:first])
    turns: list[RecordedTurn] = []
    calls: list[RecordedCall] = []
    arrivals: list[Arrival] = []
    early: set[str] = set()
    for history, step in zip(prefixes(past.steps), past.steps[1:], strict=False):
        if step.seq < first:
            continue
        if step.by_agent:
            metadata = {name: value for name, value in step.metadata.items() if name != "routing"}
            turns.append(RecordedTurn(agent=step.agent_name, parts=step.parts, metadata=metadata))
        elif step.agent_name == TOOL_EXECUTOR:
            after = past.steps[step.seq + 1] if step.seq + 1 < len(past.steps) else None
            situation, recorded = results_of(past.team, history, step, after)
            calls += recorded.values()
            arrivals += _early(situation, step.seq)
            early = {item.item_id for item in situation.inbox}
        else:
            arrivals += _arrived(past, history, step, early)
    return Recording(
        opening=opening, turns=tuple(turns), calls=tuple(calls), arrivals=tuple(arrivals), sub_task=past.sub_task
    )


def _early(situation: Situation, at: int) -> Iterator[Arrival]:
    """Yield the inputs that arrived before all results of a step were in."""
    yield from (Arrival(at=at, item=item) for item in situation.inbox)
    if situation.exhausted is not None:
        yield Arrival(at=at, exhausted=situation.exhausted)


def _arrived(past: Past, history: History, step: TaskStep, known: set[str]) -> Iterator[Arrival]:
    """Yield the input that the step of the user or the orchestrator applied, unless it is known already."""
    item = arrival(step)
    if item is not None:
        if item.item_id not in known:
            alone = ask(past.team, history, Situation(sub_task=past.sub_task), past.router, {}).action
            yield Arrival(at=step.seq, waited=isinstance(alone, Wait), item=item)
    elif (why := given_up(step)) is not None:
        yield Arrival(at=step.seq, exhausted=why)
    elif step.agent_name == USER:
        yield Arrival(at=step.seq, step=step)
    else:
        yield from _moment(past, history, step)


def _moment(past: Past, history: History, step: TaskStep) -> Iterator[Arrival]:
    """Yield the input for a step that does not follow from the history: the time, or the step itself."""
    recorded = choice_of(step)
    asked = Judge(past, past.team, past.router).asked(history, step)
    if judged(recorded, asked.action, other=False) == "same":
        return
    seconds = (step.created_at - past.began).total_seconds()
    timed = ask(past.team, history, Situation(seconds=seconds, sub_task=past.sub_task), past.router, {})
    if judged(recorded, timed.action, other=False) == "same":
        yield Arrival(at=step.seq, seconds=seconds)
    else:
        yield Arrival(at=step.seq, step=step)
