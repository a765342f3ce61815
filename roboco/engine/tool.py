"""tool: run one tool call.

    claim ─► [intent] ─► run ─► [outcome] ─► record ─► doorbell, when it was the last
    (once    (create)           (put)        (fenced, once)
    per attempt)

Intent and outcome are written for irreversible tools only: an intent without an outcome means that the
call was begun and nobody knows how it ended. It is then never run again: the tool's own `verify` finds out
what came of it, or the agent is told, or a person is asked.
"""

import logging
from collections.abc import Callable

from roboco.domain.answers import answered_here
from roboco.domain.canonical import canonical
from roboco.domain.outcome import Outcome, failure, unknown
from roboco.domain.part import ToolCall
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.team import ToolSpec
from roboco.engine.engine import Engine
from roboco.engine.insist import insist
from roboco.engine.pending import close_call, restart_call, told
from roboco.ports import CallContext, CallOrder

_log = logging.getLogger(__name__)

LOST = "the worker that ran this call was lost, or the call was ended because its time was up"


def tool(engine: Engine, order: CallOrder) -> None:
    """Run the call, unless it is done, taken, or no longer wanted."""
    token = engine.token()
    engine.agenda.hasten(order.task_id, engine.clock.now() + engine.policy.lease)
    if not engine.calls.claim(order, token):
        return
    team = engine.teams.get(order.task_id)
    task = engine.board.load(order.task_id, 1)
    if task is None or task.tail[-1].seq != order.seq:
        return
    step = task.tail[-1]
    call = next(call for call in step.calls if call.id == order.call_id)
    context = CallContext(order.task_id, step.agent_name, call.id, f"{order.task_id}/{call.id}", order.attempt)

    def renew() -> bool:
        return engine.calls.renew(order, token)

    with engine.keeper.hold(renew, lambda: None):
        outcome = _outcome(engine, team.tool(call.tool_name), call, context, renew)
    if outcome is None:
        return
    kept = engine.calls.record(order, token, outcome, told(engine, order, call, outcome))
    if kept is not None and kept >= len(step.calls) - len(answered_here(team, step)):
        engine.dispatcher.advance(order.task_id)


def overdue(engine: Engine, order: CallOrder, timeout: float) -> None:
    """See to a call whose worker was ended because its time, `timeout` seconds, was up.

    What an irreversible one has done by then is found out by the next attempt, which does not run it again.
    """
    task = engine.board.load(order.task_id, 1)
    if task is None or task.tail[-1].seq != order.seq:
        return
    team = engine.teams.get(order.task_id)
    call = next(call for call in task.tail[-1].calls if call.id == order.call_id)
    if _irreversible(team.tool(call.tool_name)):
        restart_call(engine, team, order, call, lost=True)
    else:
        close_call(engine, order, call, failure(call.id, f"tool {call.tool_name!r} was killed after {timeout:g} s"))


def _outcome(
    engine: Engine, spec: ToolSpec | None, call: ToolCall, context: CallContext, ours: Callable[[], bool]
) -> Outcome | None:
    """What the call came to; None if it is not ours any more.

    That is asked once more before an irreversible call runs: this worker may have stood still since it claimed it.
    """
    if spec is None or not _irreversible(spec):
        return engine.toolbox.run(call, spec, context)
    intent = canonical({"call": call.model_dump(mode="json"), "attempt": context.attempt, "token": engine.token()})
    path, what = intent_path(context.task_id, call.id), f"call {call.id} of task {context.task_id}"
    if not insist(engine, lambda: engine.files.create(path, intent.encode()), ours, f"the intent of {what}"):
        return _found_out(engine, spec, call, context, _stored(engine, context))
    if not ours():
        engine.files.delete(path)  # it has not run, and never will on our part
        return None
    outcome = engine.toolbox.run(call, spec, context)
    if outcome.unknown:
        outcome = _found_out(engine, spec, call, context, outcome)
    _keep(engine, context, outcome, ours, f"the outcome of {what}")
    return outcome


def _keep(engine: Engine, context: CallContext, outcome: Outcome, ours: Callable[[], bool], what: str) -> None:
    path, data = outcome_path(context.task_id, context.call_id), outcome.model_dump_json().encode()
    try:
        insist(engine, lambda: engine.files.put(path, data), ours, what)
    except Exception as error:  # the call's time may be up meanwhile, which a pool tells by an exception of its own
        _log.warning("%s is kept in redis alone: %r", what, error)


def _stored(engine: Engine, context: CallContext) -> Outcome | None:
    data = engine.files.get(outcome_path(context.task_id, context.call_id))
    return Outcome.model_validate_json(data) if data else None


def _found_out(
    engine: Engine, spec: ToolSpec, call: ToolCall, context: CallContext, outcome: Outcome | None
) -> Outcome:
    """The outcome of a call that was begun: the one that is known, what the tool finds out, or that it is unknown."""
    if outcome is not None and not outcome.unknown:
        return outcome
    return engine.toolbox.verify(call, spec, context) or outcome or unknown(call.id, LOST, spec.on_unknown)


def _irreversible(spec: ToolSpec | None) -> bool:
    return spec is not None and spec.effect == "irreversible"
