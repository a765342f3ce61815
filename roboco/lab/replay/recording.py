"""recording_of: a recorded task as a recording, for `rehearse`."""

from collections.abc import Iterator

from roboco.domain.decision.action import Situation, Wait
from roboco.domain.history.interruption import step_or_interruption_after
from roboco.domain.history.state import History
from roboco.domain.history.step import GUARDED, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.recorded.recorded_call import RecordedCall
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.recorded.recording import ExternalInput, RecordedTurn, Recording
from roboco.lab.replay.evidence import (
    external_item,
    give_up_reason,
    history_prefixes,
    recorded_action,
    recorded_results,
)
from roboco.lab.replay.replay import Replayer, compared


def recording_of(past: RecordedTask) -> Recording:
    """Return the recording of a recorded task: its own steps, each in its place."""
    first = past.first_decided
    opening = tuple(step.model_copy(update={"digest": "", "prev_digest": ""}) for step in past.steps[:first])
    turns: list[RecordedTurn] = []
    calls: list[RecordedCall] = []
    arrivals: list[ExternalInput] = []
    early: set[str] = set()
    for history, step in zip(history_prefixes(past.steps), past.steps[1:], strict=False):
        if step.seq < first:
            continue
        if step.is_map or GUARDED in step.metadata:
            continue
        if step.by_agent:
            metadata = {name: value for name, value in step.metadata.items() if name != "routing"}
            turns.append(RecordedTurn(agent=step.agent_name, parts=step.parts, metadata=metadata))
        elif step.agent_name == TOOL_EXECUTOR:
            after = step_or_interruption_after(past.steps, step.seq)
            situation, recorded = recorded_results(past.team, history, step, after)
            calls += recorded.values()
            arrivals += _early_inputs(situation, step.seq)
            early = {item.item_id for item in situation.inbox}
        else:
            arrivals += _inputs_of_step(past, history, step, early)
    return Recording(
        opening=opening, turns=tuple(turns), calls=tuple(calls), inputs=tuple(arrivals), sub_task=past.sub_task
    )


def _early_inputs(situation: Situation, at: int) -> Iterator[ExternalInput]:
    """Yield the inputs that arrived before all results of a step were in."""
    yield from (ExternalInput(at=at, item=item) for item in situation.inbox)
    if situation.give_up_reason is not None:
        yield ExternalInput(at=at, exhausted=situation.give_up_reason)


def _inputs_of_step(past: RecordedTask, history: History, step: TaskStep, known: set[str]) -> Iterator[ExternalInput]:
    """Yield the input that the step of the user or the orchestrator applied, unless it is known already."""
    item = external_item(step)
    if item is not None:
        if item.item_id not in known:
            alone = Replayer(past, past.team, past.router).decide_alone(history).action
            yield ExternalInput(at=step.seq, waited=isinstance(alone, Wait), item=item)
    elif (why := give_up_reason(step)) is not None:
        yield ExternalInput(at=step.seq, exhausted=why)
    elif step.agent_name == USER:
        yield ExternalInput(at=step.seq, step=step)
    else:
        yield from _undetermined_input(past, history, step)


def _undetermined_input(past: RecordedTask, history: History, step: TaskStep) -> Iterator[ExternalInput]:
    """Yield the input for a step that does not follow from the history: the time, or the step itself."""
    recorded, replayer = recorded_action(step), Replayer(past, past.team, past.router)
    if compared(recorded, replayer.decide_at(history, step).action, other=False) == "same":
        return
    seconds = (step.created_at - history.state.limits_since(past.started_at)).total_seconds()
    if compared(recorded, replayer.decide_alone(history, seconds).action, other=False) == "same":
        yield ExternalInput(at=step.seq, seconds=seconds)
    else:
        yield ExternalInput(at=step.seq, step=step)
