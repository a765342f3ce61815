"""tool: run one tool call.

    claim ─► [intent] ─► run ─► [outcome] ─► record ─► doorbell, when it was the last
    (once    (create)           (put)        (fenced, once)
    per attempt)

Intent and outcome are written for irreversible tools only: an intent without an outcome means that the
call was begun and nobody knows how it ended. It is then never run again; the agent is told so.
"""

import logging

from roboco.domain.builtin import BUILTIN
from roboco.domain.canonical import canonical
from roboco.domain.decide import answered_here
from roboco.domain.event import ToolReturned
from roboco.domain.outcome import Outcome, failure
from roboco.domain.part import ToolCall
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.team import ToolSpec
from roboco.engine.engine import Engine
from roboco.engine.pending import record_failure
from roboco.errors import TransientError
from roboco.ports import CallContext, CallOrder

_log = logging.getLogger(__name__)

UNKNOWN_OUTCOME = (
    "outcome unknown: the worker that ran this call was lost, and the call may or may not have had its effect; "
    "it is not repeated. Find out what happened before you try again"
)


def tool(engine: Engine, order: CallOrder) -> None:
    """Run the call, unless it is done, taken, or no longer wanted."""
    token = engine.token()
    if not engine.calls.claim(order, token):
        return
    team = engine.teams.get(order.task_id)
    task = engine.board.load(order.task_id, 1)
    if task is None or task.tail[-1].seq != order.seq:
        return
    step = task.tail[-1]
    call = next(call for call in step.calls if call.id == order.call_id)
    context = CallContext(order.task_id, step.agent_name, call.id, f"{order.task_id}/{call.id}", order.attempt)
    with engine.keeper.hold(lambda: engine.calls.renew(order, token), lambda: None):
        outcome = _outcome(engine, team.tool(call.tool_name), call, context, token)
    event = ToolReturned(
        task_id=order.task_id, timestamp=engine.now(), tool_name=call.tool_name, tool_result=outcome.result
    )
    kept = engine.calls.record(order, token, outcome, event)
    if kept is not None and kept >= len(step.calls) - len(answered_here(team, step)):
        engine.dispatcher.advance(order.task_id)


def overdue(engine: Engine, order: CallOrder, timeout: float) -> None:
    """Close a call whose worker was ended because its time, `timeout` seconds, was up."""
    task = engine.board.load(order.task_id, 1)
    names = {call.id: call.tool_name for call in task.tail[-1].calls} if task else {}
    name = names.get(order.call_id, "")
    message = f"tool {name!r} was killed after {timeout:g} s; what it had done by then is not known"
    record_failure(engine, order, name, message)


def _outcome(engine: Engine, spec: ToolSpec | None, call: ToolCall, context: CallContext, token: str) -> Outcome:
    if not _irreversible(spec, call):
        return engine.toolbox.run(call, spec, context)
    intent = canonical({"call": call.model_dump(mode="json"), "attempt": context.attempt, "owner": token}).encode()
    if not engine.files.create(intent_path(context.task_id, call.id), intent):
        stored = engine.files.get(outcome_path(context.task_id, call.id))
        return Outcome.model_validate_json(stored) if stored else failure(call.id, UNKNOWN_OUTCOME)
    outcome = engine.toolbox.run(call, spec, context)
    try:
        engine.files.put(outcome_path(context.task_id, call.id), outcome.model_dump_json().encode())
    except TransientError as error:
        _log.warning("the outcome of %s is kept in redis alone: %s", call.id, error)
    return outcome


def _irreversible(spec: ToolSpec | None, call: ToolCall) -> bool:
    return call.tool_name not in BUILTIN and spec is not None and spec.effect == "irreversible"
