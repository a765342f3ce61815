"""task_commands: handle the commands by which callers and other services control a task that exists.

A command may be delivered twice. The Celery task id is the default item id, so the second delivery changes nothing.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from roboco.broker import names
from roboco.client.run_handler import Handler, SentCommand, run_handler
from roboco.client.team_lookup import resolve_sent_team
from roboco.domain.history.lineage import Retry
from roboco.domain.history.part import ToolOutcome, ToolResult
from roboco.domain.history.step import ANSWER_FORM
from roboco.domain.ids import NewId, check_item_id, check_own_item_id, check_task_id, fork_item_id
from roboco.domain.inbox.attachments import AnswerForm, Attachments
from roboco.domain.inbox.item import Stop, UserMessage
from roboco.domain.inbox.submission import parse_arguments, parse_message, parse_result
from roboco.domain.limits import LimitOverrides
from roboco.domain.schema import CallerId, InputModel
from roboco.engine.accept import answer, control
from roboco.engine.accept.accept_item import IdLookup, accept_item
from roboco.engine.accept.checks import check_attachments
from roboco.engine.accept.control import set_limits
from roboco.engine.accept.fork import ForkRequest, fork, retry_task
from roboco.engine.engine import Engine
from roboco.errors import UsageError
from roboco.settings import Settings


class _TaskArguments(InputModel):
    model_config = ConfigDict(strict=True)

    task_id: str
    by: CallerId | None = None
    """The identity of the caller, for the history."""


class _ItemArguments(_TaskArguments):
    item_id: str | None = None

    def checked_item_id(self, default_id: str) -> str:
        """Return the caller's item id, or else the given one. Raise UsageError if its prefix is reserved."""
        return check_item_id(default_id) if self.item_id is None else check_own_item_id(self.item_id)

    def lookup(self, default_id: str) -> IdLookup:
        """Return what is known of the item's id. A Celery task id is not new: its message may be delivered again."""
        return "new id" if self.item_id is None and isinstance(default_id, NewId) else "needed"


class _MessageArguments(_ItemArguments, Attachments):
    """A message of the user."""

    message: str
    agent: str | None = None
    """The agent that answers the message; None to let the team decide."""


class _InterruptArguments(_ItemArguments, Attachments):
    """An interruption of the work in progress."""

    message: str | None = None
    """The message with which the task continues; None if it waits for one."""
    agent: str | None = None


class _SendArguments(_MessageArguments):
    if_busy: Literal["queue", "interrupt", "reject"] | None = None


_Reason = Annotated[str, Field(max_length=4000)]


class _StopArguments(_ItemArguments):
    reason: _Reason = "stopped by the user"


class _AnswerArguments(_TaskArguments):
    """The result of a client tool."""

    call_id: str
    status: Literal["success", "error", "declined"] = "success"
    result: JsonValue = None
    """The result of a successful call: any JSON value."""
    error: _Reason | None = None
    """The reason why there is no result."""
    runtime_ms: int = Field(default=0, ge=0)
    answer_form: AnswerForm | None = None
    """The form of the answer that follows, in place of that of the message."""


class _ApproveArguments(_TaskArguments):
    call_id: str
    args: dict[str, JsonValue] | None = None
    reason: _Reason = ""


class _DenyArguments(_TaskArguments):
    call_id: str
    reason: _Reason = ""


class _ResolveArguments(_ItemArguments):
    call_id: str
    happened: bool
    result: JsonValue = None


class _SetLimitsArguments(_ItemArguments):
    limits: LimitOverrides


class _RetryArguments(_ItemArguments):
    reason: _Reason = ""
    limits: LimitOverrides = LimitOverrides()
    from_step: Annotated[int, Field(ge=0)] | None = None


class _ForkArguments(_ItemArguments, Attachments):
    source: str
    seq: int | None = None
    message: str | None = None
    agent: str | None = None
    team: str | dict[str, JsonValue] | None = None
    model: str | None = None


def _handle_send(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_SendArguments, arguments)
    message, lookup = _user_message(engine, command, item_id), command.lookup(item_id)
    control.accept_message(engine, check_task_id(command.task_id), message, command.if_busy, lookup)


def _handle_interrupt(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_InterruptArguments, arguments)
    task_id = check_task_id(command.task_id)
    if command.message is not None:
        message = _MessageArguments.model_validate(command.model_dump(by_alias=True))
        sent = _user_message(engine, message, item_id)
        control.accept_message(engine, task_id, sent, "interrupt", command.lookup(item_id))
    else:
        _check_no_attachments(command, command.agent)
        new_id = command.checked_item_id(item_id)
        control.accept_interrupt(engine, task_id, new_id, command.by, command.lookup(item_id))


def _check_no_attachments(command: Attachments, agent: str | None) -> None:
    if agent is not None or command.metadata() or command.artifacts:
        raise UsageError(
            "message: is missing; agent, goals, client_tools, client_context, answer_form, scope, state and artifacts "
            "need one"
        )


def _user_message(engine: Engine, command: _MessageArguments, item_id: str) -> UserMessage:
    command.check()
    artifacts = check_attachments(engine, check_task_id(command.task_id), command)
    return UserMessage(
        item_id=command.checked_item_id(item_id),
        created_at=engine.now(),
        by=command.by,
        text=parse_message(command.message),
        agent=command.agent,
        attachments=command.metadata(),
        artifacts=artifacts,
    )


def _handle_stop(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_StopArguments, arguments)
    reason = parse_message(command.reason, "reason")
    stop = Stop(item_id=command.checked_item_id(item_id), created_at=engine.now(), by=command.by, reason=reason)
    accept_item(engine, check_task_id(command.task_id), stop, lookup=command.lookup(item_id))


def _pause_handler(action: Callable[[Engine, str, str, str | None], None]) -> Handler:
    def handle_pause_item(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
        command = parse_arguments(_ItemArguments, arguments)
        action(engine, check_task_id(command.task_id), command.checked_item_id(item_id), command.by)

    return handle_pause_item


def _handle_answer(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_AnswerArguments, arguments)
    if command.status != "success" and command.result is not None:
        raise UsageError(f"result: a call with status {command.status!r} has no result; pass the reason in 'error'")
    if command.status == "success" and command.error is not None:
        raise UsageError("error: a call with status 'success' has no error")
    error_prefix = {"success": None, "error": "the client could not run it", "declined": "declined by the client"}
    result = ToolResult(
        tool_call_id=command.call_id,
        result=parse_result(command.result, most=answer.MAX_EXTERNAL_RESULT_BYTES),
        is_error=command.status != "success",
        error=": ".join(filter(None, (error_prefix[command.status], command.error))) or None,
        runtime_ms=command.runtime_ms,
    )
    task_id, attached = check_task_id(command.task_id), Attachments(answer_form=command.answer_form)
    attached.check()
    check_attachments(engine, task_id, attached)
    form = attached.metadata().get(ANSWER_FORM, {})
    answer.answer(engine, task_id, ToolOutcome(result=result), command.by, form)


def _handle_approve(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_ApproveArguments, arguments)
    args = parse_result(command.args, "args")
    approval = answer.CallApproval(True, command.reason, args, command.by)
    answer.decide_approval(engine, check_task_id(command.task_id), command.call_id, approval)


def _handle_deny(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_DenyArguments, arguments)
    denial = answer.CallApproval(False, command.reason, by=command.by)
    answer.decide_approval(engine, check_task_id(command.task_id), command.call_id, denial)


def _handle_resolve(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_ResolveArguments, arguments)
    result = parse_result(command.result)
    if result is not None and not command.happened:
        raise UsageError("result: a call that did not happen has no result")
    resolution, item_id = answer.CallResolution(command.happened, result, command.by), command.checked_item_id(item_id)
    answer.resolve_unknown(engine, check_task_id(command.task_id), command.call_id, resolution, item_id)


def _handle_set_limits(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    command = parse_arguments(_SetLimitsArguments, arguments)
    item_id = command.checked_item_id(item_id)
    set_limits(engine, check_task_id(command.task_id), command.limits, item_id, command.by)


def _handle_retry(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> bool:
    """Return True if this command has created the task that continues the failed one."""
    command = parse_arguments(_RetryArguments, arguments)
    reason = parse_message(command.reason, "reason") if command.reason else ""
    retry = Retry(reason=reason, limits=command.limits.overrides(), item_id=command.item_id or "")
    return retry_task(engine, check_task_id(command.task_id), retry, command.by, command.from_step)


def _handle_fork(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> bool:
    """Return True if this command has created the task."""
    command = parse_arguments(_ForkArguments, arguments)
    first_message = None
    if command.message is not None:
        given = command.model_dump(
            by_alias=True, include={"task_id", "by", "message", "agent", *Attachments.model_fields}
        )
        first_id = command.checked_item_id(fork_item_id(command.task_id))
        first_message = _user_message(engine, _MessageArguments.model_validate(given), first_id)
    else:
        _check_no_attachments(command, command.agent)
    order = ForkRequest(
        source=command.source,
        task_id=command.task_id,
        seq=command.seq,
        message=first_message,
        team=None if command.team is None else resolve_sent_team(settings, command.team),
        model=command.model,
        by=command.by,
    )
    return fork(engine, order)


TASK_HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        names.SEND_TASK: _handle_send,
        names.INTERRUPT_TASK: _handle_interrupt,
        names.STOP_TASK: _handle_stop,
        names.PAUSE_TASK: _pause_handler(control.pause),
        names.RESUME_TASK: _pause_handler(control.resume),
        names.STEP_TASK: _pause_handler(control.step),
        names.ANSWER_TASK: _handle_answer,
        names.APPROVE_TASK: _handle_approve,
        names.DENY_TASK: _handle_deny,
        names.RESOLVE_TASK: _handle_resolve,
        names.FORK_TASK: _handle_fork,
        names.SET_LIMITS_TASK: _handle_set_limits,
        names.RETRY_TASK: _handle_retry,
    }
)


def handle_task_command(
    engine: Engine, settings: Settings, name: str, arguments: dict[str, Any], item_id: str
) -> bool | None:
    """Handle the command of this name. If it is refused, publish the error to the task's followers and raise it.

    If it names no caller, that of the settings counts. Return the result of the handler.
    """
    if arguments.get("by") is None and settings.caller is not None:
        arguments = arguments | {"by": settings.caller}
    return run_handler(TASK_HANDLERS[name], engine, settings, SentCommand(name, arguments, item_id, "client"))
