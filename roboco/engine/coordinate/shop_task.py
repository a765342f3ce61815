"""shop_task: tool calls that a Celery task of another application answers.

    claim ─► allowed? broker answers? ─► intent ─► message ─► release, with the reason ─► ... ─► answer ─► inbox
             (nothing is sent yet)       (create)             (no worker waits)
                                                                └─► its time is up: an error, or an unknown outcome

The claim lets one coordinator send. The intent holds the time from which the call's timeout counts, and a secret that
the answer must contain. After it, the Celery task of an irreversible tool is never sent again. That of another tool is
sent again, under the same id, unless the release shows that it was sent: a coordinator may have died in between.

The answer:

    shop's worker ─► link: result ─► coordinator: open call? secret? ─► item answer-CALL ─► result of the call
                     link_error ──►              └─► late: refused, with an event for followers; forged: refused

The item is named after the call, so the first answer counts. The same answer again changes nothing.
"""

import hmac
import logging
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_jsonable_python

from roboco.domain.canonical_json import canonical_json, json_bytes, validated_json
from roboco.domain.decision.tool_answers import ended_outcome, needs_resolution
from roboco.domain.history.part import ToolCall, ToolOutcome, failed_outcome, successful_outcome
from roboco.domain.ids import answer_id, check_task_id, shop_task_id
from roboco.domain.notification import has_type_mark
from roboco.domain.paths import intent_path
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import TaskTool
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.engine.accept.answer import MAX_EXTERNAL_RESULT_BYTES, approved_call, external_result, open_call
from roboco.engine.accept.wait_cause import SHOP_WAIT
from roboco.engine.coordinate.close_call import close_call
from roboco.engine.coordinate.switched_off import call_work, check_delay
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.record.effects import SentTask, sent_task
from roboco.engine.record.recorded_answers import recorded_answer
from roboco.errors import Forbidden, StateConflict, TransientError, UsageError
from roboco.ports.assignment import ToolAssignment
from roboco.ports.shop import ShopTask
from roboco.ports.snapshot import CallState, Snapshot
from roboco.ports.telemetry import TOOL_SECONDS

_log = logging.getLogger(__name__)

MAX_CHECK_DELAY: Final = 300.0
"""Seconds until the next check of a call that waits for its answer, at most."""


def check_shop_task(
    engine: Engine,
    team: Team,
    task: Snapshot,
    pending: tuple[ToolAssignment, ToolCall, CallState],
    by_sweeper: bool,
) -> float:
    """Send the Celery task of an open call if that is due, or end the call at its timeout.

    Return the seconds until the next check. The sweeper leaves sending to the pool, since a broker may not answer.
    """
    assignment, call, state = pending
    tool, sent = _tool(team, call), sent_task(engine.workspace, assignment.task_id, call.id)
    work = call_work(team, assignment.task_id, task.steps.tail[-1].agent_name, call)
    left = tool.timeout if sent is None else sent.at + tool.timeout - engine.clock.now()
    if left <= 0:
        engine.services.telemetry.record(TOOL_SECONDS, tool.timeout, call.tool_name, "error")
        close_call(engine, assignment, call, _timed_out(assignment, call, tool))
    elif state.claimed:
        return max(state.lease_left, engine.policy.redelivery_delay)
    elif sent is not None and state.waits:
        return min(left, MAX_CHECK_DELAY)
    elif not by_sweeper:
        return _Sending(engine, team, task, assignment, call).run()
    elif engine.process.switches.blocking(work) is None:
        engine.services.dispatcher.advance(assignment.task_id)
    return check_delay(engine, task)


def revoke_task(engine: Engine, task_id: str, seq: int, call: ToolCall, tool: TaskTool) -> None:
    """Revoke the Celery task of a call whose result is no longer needed, if the team asks for it."""
    if tool.on_stop == "leave" or sent_task(engine.workspace, task_id, call.id) is None:
        return
    try:
        engine.services.shop.revoke(shop_task_id(task_id, seq, call.id), tool.on_stop == "terminate")
    except TransientError as error:
        _log.warning("the Celery task %s of call %s of task %s is not revoked: %s", tool.task, call.id, task_id, error)


def _describe_shop_task(assignment: ToolAssignment, call: ToolCall, tool: TaskTool) -> str:
    """Return the Celery task of the call, for people."""
    return f"{SHOP_WAIT}{tool.task} ({shop_task_id(assignment.task_id, assignment.seq, call.id)})"


class _Sending:
    """The sending of the Celery task of one call."""

    def __init__(self, engine: Engine, team: Team, task: Snapshot, assignment: ToolAssignment, call: ToolCall) -> None:
        self._engine = engine
        self._team = team
        self._task = task
        self._assignment = assignment
        self._call = call
        self._tool = _tool(team, call)
        self._token = engine.new_token()
        self._has_intent = False

    def run(self) -> float:
        """Send the Celery task if this coordinator can claim the call. Return the seconds until the next check."""
        if not self._engine.tasks.leases.claim_call(self._assignment, self._token):
            return self._engine.policy.lease
        try:
            return self._send()
        except TransientError as error:
            # a call that waits counts as sent once it has an intent
            why = (
                f"{self._named} is not sent now: the broker of the application does not take it; "
                "the log of the coordinators has the cause, and it is tried again"
            )
            self._release("" if self._has_intent else why)
            _log.warning("%s is not sent now, and tried again: %s", self._named, error)
            return check_delay(self._engine, self._task)

    def _send(self) -> float:
        engine, task_id, tool = self._engine, self._assignment.task_id, self._tool
        work = call_work(self._team, task_id, self._task.steps.tail[-1].agent_name, self._call)
        if (switch := engine.process.switches.blocking(work)) is not None:
            self._release(switch.cause)
            return check_delay(engine, self._task)
        call = approved_call(engine.workspace, self._team, task_id, self._call) or self._call
        sent = sent_task(engine.workspace, task_id, call.id)
        self._has_intent = sent is not None
        if sent is None and (answered := self._answer_without_sending(call)) is not None:
            close_call(engine, self._assignment, self._call, answered)
            return engine.policy.redelivery_delay
        self._has_intent = True
        first, sent = self._store_intent(call) if sent is None else (False, sent)
        left = sent.at + tool.timeout - engine.clock.now()
        if left > 0 and (first or tool.effect != "irreversible"):
            self._publish(call, sent, left)
        since = engine.time_at(sent.at).strftime("%Y-%m-%d %H:%M:%S UTC")
        self._release(f"{self._named} waits or runs in queue {tool.queue}, since {since}")
        return min(max(left, 0.0), MAX_CHECK_DELAY)

    def _answer_without_sending(self, call: ToolCall) -> ToolOutcome | None:
        """Return the outcome of a call whose Celery task must not be sent, or None if it may be."""
        engine, task_id = self._engine, self._assignment.task_id
        recorded = recorded_answer(engine.workspace, self._team, task_id, self._task, call)
        if recorded is not None:
            return recorded
        if wrong := engine.services.toolbox.args_error(self._tool.parameters, call.args):
            return failed_outcome(call.id, f"not sent: wrong arguments: {wrong}")
        if has_type_mark(call.args):
            return failed_outcome(call.id, "not sent: an argument has the key '__type__', which Celery would interpret")
        try:
            engine.services.shop.check(self._tool)
        except UsageError as error:
            return failed_outcome(call.id, f"not sent: {error}")
        return None

    def _store_intent(self, call: ToolCall) -> tuple[bool, SentTask]:
        """Store the intent. Return True with it, or False with that of another attempt, which may have sent it."""
        engine, attempt = self._engine, self._assignment.attempt
        intent = SentTask(call=call, attempt=attempt, token=engine.new_token(), at=engine.clock.now())
        data = canonical_json(intent.model_dump(mode="json")).encode()
        engine.workspace.files.create(intent_path(self._assignment.task_id, call.id), data)
        stored = sent_task(engine.workspace, self._assignment.task_id, call.id) or intent
        return stored.token == intent.token, stored

    def _publish(self, call: ToolCall, sent: SentTask, left: float) -> None:
        """Send the Celery task. That of an irreversible tool may have been sent even if the broker fails."""
        message_id = shop_task_id(self._assignment.task_id, self._assignment.seq, call.id)
        sending = ShopTask(message_id, self._tool, call.args, left, self._assignment.task_id, call.id, sent.token)
        try:
            self._engine.services.shop.send(sending)
        except TransientError as error:
            if self._tool.effect != "irreversible":
                raise
            _log.warning("it is unknown whether %s was sent; it is not sent again: %s", self._named, error)

    def _release(self, reason: str) -> None:
        """Release the call; with a reason, it waits, and no message has to be sent until a coordinator claims it."""
        task_id, now = self._assignment.task_id, self._engine.now()
        event = StatusChanged(task_id=task_id, timestamp=now, status=TaskStatus.RUNNING, reason=reason)
        self._engine.tasks.leases.release_call(self._assignment, self._token, event=event if reason else None)

    @property
    def _named(self) -> str:
        return _describe_shop_task(self._assignment, self._call, self._tool)


def _tool(team: Team, call: ToolCall) -> TaskTool:
    tool = team.task_tool(call.tool_name)
    assert tool is not None, call.tool_name
    return tool


def _timed_out(assignment: ToolAssignment, call: ToolCall, tool: TaskTool) -> ToolOutcome:
    """Return the outcome of a call without an answer: unknown if it is irreversible, else a failure."""
    why = f"{_describe_shop_task(assignment, call, tool)} has not answered within its {tool.timeout:g} s"
    return ended_outcome(tool, call.id, why, round(tool.timeout * 1000))


@dataclass(frozen=True)
class TaskAnswer:
    """The answer of a Celery task, as any sender may have written it."""

    task_id: str
    call_id: str
    secret: str
    failed: bool
    """True if it failed, or its process was lost: Celery does not say which."""
    result: Any = None


def accept_task_answer(engine: Engine, given: TaskAnswer) -> None:
    """Accept the answer. A further one to the same call changes nothing.

    Raise UsageError if no Celery task was sent for the call with this secret, or if the call has a result already.
    """
    task_id, call_id = check_task_id(given.task_id), given.call_id
    item_id, sent = answer_id(call_id), sent_task(engine.workspace, task_id, call_id)
    if sent is None or not hmac.compare_digest(sent.token.encode(), given.secret.encode()):
        raise Forbidden(f"call_id: no Celery task was sent for call {call_id!r} of task {task_id!r} with this secret")
    if (before := stored_item(engine.workspace, task_id, item_id)) is not None:
        accept_item(engine, task_id, before)
        return
    step, call = open_call(engine, task_id, call_id)
    task = recover.load_task(engine, task_id)
    tool = engine.workspace.frozen_teams.get(task_id).task_tool(call.tool_name)
    if task is None or tool is None:
        raise StateConflict(f"call_id: call {call_id!r} of task {task_id!r} waits for no Celery task")
    state = task.calls.get(call_id, CallState())
    if state.outcome is not None and not needs_resolution(state.outcome):
        raise StateConflict(f"call_id: call {call_id!r} has a result already; this answer of its Celery task is late")
    assignment = ToolAssignment(task_id, step.seq, task.position.epoch, call_id, state.attempt)
    outcome = _outcome(given, call, tool, _describe_shop_task(assignment, call, tool))
    took = max(0.0, engine.clock.now() - sent.at)
    engine.services.telemetry.record(TOOL_SECONDS, took, call.tool_name, "error" if outcome.result.is_error else "ok")
    result = outcome.result.model_copy(update={"runtime_ms": round(took * 1000)})
    outcome = outcome.model_copy(update={"result": result})
    if needs_resolution(outcome):
        close_call(engine, assignment, call, outcome)
        return
    accept_item(engine, task_id, external_result(engine, task_id, step.seq, outcome))


def _outcome(given: TaskAnswer, call: ToolCall, tool: TaskTool, named: str) -> ToolOutcome:
    """Return the outcome that the answer reports. That of a failed irreversible Celery task is unknown."""
    if given.failed:
        why = f"{named} failed, or its process was lost: see the log of its worker"
        return ended_outcome(tool, call.id, why)
    try:
        result = validated_json(to_jsonable_python(given.result))
        size = json_bytes(result)
    except ValueError as error:
        return failed_outcome(call.id, f"{named} has ended, and its result is no JSON: {str(error)[:500]}")
    if size > MAX_EXTERNAL_RESULT_BYTES:
        limit = f"at most {MAX_EXTERNAL_RESULT_BYTES} are possible"
        return failed_outcome(call.id, f"{named} has ended, and its result has {size} bytes of JSON, {limit}")
    return successful_outcome(call, result)
