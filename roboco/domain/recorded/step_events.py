"""step_events: the content of a step in plain words, a line for each event."""

import json
from collections.abc import Iterator, Sequence

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.lineage import retry_of
from roboco.domain.history.part import ToolCall
from roboco.domain.history.state import ACHIEVED_GOALS, REMINDED_GOALS
from roboco.domain.history.step import (
    ANSWER_FORM,
    EXPIRED,
    FAILED_BEFORE,
    GUARDS,
    MAP,
    NEW_LIMITS,
    ORCHESTRATOR,
    REMOTE_TASK,
    RESOLVED_BY,
    STATE,
    TOOL_EXECUTOR,
    USER,
    TaskStep,
)

_MAX_TEXT_CHARS = 200
"""The largest number of characters of a quoted text."""


def events_of(steps: Sequence[TaskStep], step: TaskStep) -> Iterator[str]:
    """Yield the events of the step, a line each."""
    if step.agent_name == USER:
        yield from _user_events(step)
    elif step.agent_name == TOOL_EXECUTOR:
        yield from _result_events(steps, step)
    elif step.agent_name == ORCHESTRATOR:
        yield orchestrator_event(step)
    else:
        yield from _agent_events(step)
    yield from remote_events(step)
    if changed := step.metadata.get(STATE):
        yield f"the state of the task changed: {truncated(', '.join(map(str, changed)))}"


def remote_events(step: TaskStep) -> Iterator[str]:
    """Yield how the remote task of the turn has ended, or why it may still run, if the turn did not let it end."""
    if not isinstance(remote := step.metadata.get(REMOTE_TASK), dict):
        return
    if not (task := remote.get("id")):
        yield "it is unknown whether the remote agent has a task: it may still run"
    elif remote.get("state") == "running":
        why = remote.get("error") or "no agents worker could cancel it"
        yield truncated(f"the remote task {task} may still run: {why}")
    else:
        yield truncated(f"the remote task {task} was cancelled: {remote.get('state')}")


def _user_events(step: TaskStep) -> Iterator[str]:
    how = "interrupted the work and said" if step.metadata.get("interrupts") else "said"
    whom = f" to {step.metadata['agent']}" if step.metadata.get("agent") else ""
    yield f"the user{caller_in_brackets(step)} {how}{whom}: {_quoted(step.text)}"
    if goals := step.metadata.get("goals"):
        yield f"the user asked for these goals: {', '.join(str(goal.get('name')) for goal in goals)}"
    if tools := step.metadata.get("client_tools"):
        yield f"the client declared these tools: {', '.join(str(tool.get('name')) for tool in tools)}"
    if form := step.metadata.get(ANSWER_FORM):
        yield f"the client demanded a form of the answer: {', '.join(sorted(form))}"


def _agent_events(step: TaskStep) -> Iterator[str]:
    if step.begins_function:
        yield f"the code of {step.agent_name} was called"
        return
    if step.is_map and step.calls:
        yield f"{step.agent_name} has a sub-task for each of {len(step.calls)} items of {step.metadata[MAP]}"
        return
    if step.is_draft:
        yield _asked(step.metadata[GUARDS].get("output"))
        return
    if step.text or not (step.calls or step.error):
        yield f"{step.agent_name} said: {_quoted(step.text)}"
    if step.interrupted:
        yield f"{step.agent_name} was interrupted there"
    for call in step.calls:
        yield f"{step.agent_name} called {call.tool_name}({_args(call)})"
    if step.error is not None:
        yield f"{step.agent_name}'s turn failed ({step.error.code}): {truncated(step.error.message)}"


def _result_events(steps: Sequence[TaskStep], step: TaskStep) -> Iterator[str]:
    calls = {call.id: call for call in steps[step.seq - 1].calls} if step.seq else {}
    verdicts, resolved = step.metadata.get("approvals") or {}, step.metadata.get("resolved") or {}
    callers, failed_before = step.metadata.get(RESOLVED_BY) or {}, step.metadata.get(FAILED_BEFORE) or {}
    for result in step.results:
        name = calls[result.tool_call_id].tool_name if result.tool_call_id in calls else "a tool"
        verdict = verdicts.get(result.tool_call_id)
        if verdict is not None and EXPIRED in verdict:
            yield f"no person decided on {name} in time"
        elif verdict is not None:
            person = f"a person{_in_brackets(verdict.get('by'))}"
            yield f"{person} {'approved' if verdict.get('approved') else 'did not approve'} {name}"
        elif result.tool_call_id in resolved:
            by = _in_brackets(callers.get(result.tool_call_id))
            yield "a sub-task ended" if name == DELEGATE else f"the answer to {name} came from outside{by}"
        for error in failed_before.get(result.tool_call_id) or ():
            yield f"{name} ran again after {truncated(str(error))}"
        if result.is_error:
            yield f"{name} failed: {truncated(result.error or 'error')}"
        else:
            yield f"{name} returned {truncated(json.dumps(result.result, ensure_ascii=False))}"
    for goal in step.metadata.get(ACHIEVED_GOALS) or {}:
        yield f"goal {goal} was achieved"


def orchestrator_event(step: TaskStep) -> str:
    """Return the event that the step of the orchestrator records."""
    if step.error is not None:
        return f"{step.error.code}{caller_in_brackets(step)}: {truncated(step.error.message)}"
    if goals := step.metadata.get(REMINDED_GOALS):
        return f"the agents were reminded of goals that were still open: {', '.join(map(str, goals))}"
    if guards := step.metadata.get(GUARDS):
        return _asked(guards.get("input"))
    if step.is_interruption:
        return f"the user{caller_in_brackets(step)} interrupted the work"
    if (retry := retry_of(step)) is not None:
        why = f": {truncated(retry.reason)}" if retry.reason else ""
        limits = f", with other limits: {truncated(json.dumps(retry.limits))}" if retry.limits else ""
        return f"a person{caller_in_brackets(step)} retried the failed task{why}{limits}"
    if NEW_LIMITS in step.metadata:
        limits = json.dumps(step.metadata[NEW_LIMITS], ensure_ascii=False)
        return f"the limits were raised{caller_in_brackets(step)}: {truncated(limits)}"
    return truncated(step.text)


def _asked(guards: object) -> str:
    return f"these guards were asked: {', '.join(map(str, guards if isinstance(guards, list) else ()))}"


def caller_in_brackets(step: TaskStep) -> str:
    """Return the caller whose item the step applies, in brackets, or ""."""
    return _in_brackets(step.metadata.get("by"))


def _in_brackets(by: object) -> str:
    return f" ({by})" if isinstance(by, str) else ""


def _args(call: ToolCall) -> str:
    return truncated(", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.args.items()))


def _quoted(text: str) -> str:
    return f"“{truncated(text)}”" if text.strip() else "nothing"


def truncated(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_CHARS else f"{line[: _MAX_TEXT_CHARS - 1]}…"
