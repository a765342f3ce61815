"""commands: handle the commands by which callers and other services submit and control tasks.

    method of Task, or Celery message ─► arguments checked ─► handler of its name ─► accepted
                                               └──────────────────┴─► UsageError, also published to followers

A command may be delivered twice. The Celery task id is the default item id, so the second delivery changes nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, ValidationError

from roboco.broker import names
from roboco.client.audit import MAX_ID_CHARS, Act, Way, audited
from roboco.client.team_lookup import resolve_sent_team
from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.lineage import Retry
from roboco.domain.history.part import ToolOutcome, ToolResult
from roboco.domain.history.step import ANSWER_FORM
from roboco.domain.ids import (
    NewId,
    check_item_id,
    check_own_item_id,
    check_task_id,
    fork_item_id,
    is_task_id,
    qualified_id,
)
from roboco.domain.inbox.attachments import AnswerForm, Attachments
from roboco.domain.inbox.item import Stop, UserMessage
from roboco.domain.inbox.submission import parse_arguments, parse_message, parse_result, parse_submission
from roboco.domain.limits import LimitOverrides
from roboco.domain.notification import check_callback
from roboco.domain.schema import CallerId, InputModel
from roboco.domain.stream.event import ErrorOccurred
from roboco.engine.accept import answer, control
from roboco.engine.accept.accept_item import IdLookup, accept_item
from roboco.engine.accept.checks import check_attachments
from roboco.engine.accept.fork import ForkRequest, fork, retry_task
from roboco.engine.engine import Engine
from roboco.errors import Overloaded, UsageError
from roboco.settings import Settings

MAX_LIMITS_CHARS: Final = 2000
"""Characters of new limits in a line of the audit log. The history holds longer ones."""
_AUDITED_FIELDS: Final = {"item": "item_id", "call": "call_id", "source": "source"}


class _TaskArguments(InputModel):
    model_config = ConfigDict(strict=True)

    task_id: Annotated[str, AfterValidator(check_task_id)]
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
    message: str | None = None
    agent: str | None = None
    """The agent that answers the message; None to let the team decide."""

    def checked_message(self, engine: Engine, item_id: str) -> UserMessage | None:
        """Return the message, or None if there is none. Raise UsageError if it is wrong, or its attachments are."""
        if self.message is None:
            if self.agent is not None or self.metadata() or self.artifacts:
                raise UsageError(
                    "message: is missing; agent, goals, client_tools, client_context, answer_form, scope, state and "
                    "artifacts need one"
                )
            return None
        self.check()
        artifacts = check_attachments(engine, self.task_id, self)
        return UserMessage(
            item_id=self.checked_item_id(item_id),
            created_at=engine.now(),
            by=self.by,
            text=parse_message(self.message),
            agent=self.agent,
            attachments=self.metadata(),
            artifacts=artifacts,
        )


class _SendArguments(_MessageArguments):
    message: str
    if_busy: Literal["queue", "interrupt", "reject"] | None = None


_Reason = Annotated[str, Field(max_length=4000)]


class _StopArguments(_ItemArguments):
    reason: _Reason = "stopped by the user"


class _AnswerArguments(_TaskArguments):
    """The result of a client tool, or why there is none."""

    call_id: str
    status: Literal["success", "error", "declined"] = "success"
    result: JsonValue = None
    error: _Reason | None = None
    runtime_ms: int = Field(default=0, ge=0)
    answer_form: AnswerForm | None = None
    """The form of the answer that follows, in place of that of the message."""


class _DenyArguments(_TaskArguments):
    call_id: str
    reason: _Reason = ""


class _ApproveArguments(_DenyArguments):
    args: dict[str, JsonValue] | None = None


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


class _ForkArguments(_MessageArguments):
    source: str
    seq: int | None = None
    team: str | dict[str, JsonValue] | None = None
    model: str | None = None


def _send(engine: Engine, settings: Settings, given: _SendArguments, item_id: str) -> None:
    message = given.checked_message(engine, item_id)
    if message is not None:
        control.accept_message(engine, given.task_id, message, given.if_busy, given.lookup(item_id))


def _interrupt(engine: Engine, settings: Settings, given: _MessageArguments, item_id: str) -> None:
    message, lookup = given.checked_message(engine, item_id), given.lookup(item_id)
    if message is not None:
        control.accept_message(engine, given.task_id, message, "interrupt", lookup)
    else:
        control.accept_interrupt(engine, given.task_id, given.checked_item_id(item_id), given.by, lookup)


def _stop(engine: Engine, settings: Settings, given: _StopArguments, item_id: str) -> None:
    reason = parse_message(given.reason, "reason")
    stop = Stop(item_id=given.checked_item_id(item_id), created_at=engine.now(), by=given.by, reason=reason)
    accept_item(engine, given.task_id, stop, lookup=given.lookup(item_id))


def _pause(
    action: Callable[[Engine, str, str, str | None], None],
    engine: Engine,
    settings: Settings,
    given: _ItemArguments,
    item_id: str,
) -> None:
    action(engine, given.task_id, given.checked_item_id(item_id), given.by)


def _answer(engine: Engine, settings: Settings, given: _AnswerArguments, item_id: str) -> None:
    if given.status != "success" and given.result is not None:
        raise UsageError(f"result: a call with status {given.status!r} has no result; pass the reason in 'error'")
    if given.status == "success" and given.error is not None:
        raise UsageError("error: a call with status 'success' has no error")
    error_prefix = {"success": None, "error": "the client could not run it", "declined": "declined by the client"}
    result = ToolResult(
        tool_call_id=given.call_id,
        result=parse_result(given.result, most=answer.MAX_EXTERNAL_RESULT_BYTES),
        is_error=given.status != "success",
        error=": ".join(filter(None, (error_prefix[given.status], given.error))) or None,
        runtime_ms=given.runtime_ms,
    )
    attached = Attachments(answer_form=given.answer_form)
    attached.check()
    check_attachments(engine, given.task_id, attached)
    form = attached.metadata().get(ANSWER_FORM, {})
    answer.answer(engine, given.task_id, ToolOutcome(result=result), given.by, form)


def _approve(engine: Engine, settings: Settings, given: _ApproveArguments, item_id: str) -> None:
    approval = answer.CallApproval(True, given.reason, parse_result(given.args, "args"), given.by)
    answer.decide_approval(engine, given.task_id, given.call_id, approval)


def _deny(engine: Engine, settings: Settings, given: _DenyArguments, item_id: str) -> None:
    denial = answer.CallApproval(False, given.reason, by=given.by)
    answer.decide_approval(engine, given.task_id, given.call_id, denial)


def _resolve(engine: Engine, settings: Settings, given: _ResolveArguments, item_id: str) -> None:
    result = parse_result(given.result)
    if result is not None and not given.happened:
        raise UsageError("result: a call that did not happen has no result")
    resolution = answer.CallResolution(given.happened, result, given.by)
    answer.resolve_unknown(engine, given.task_id, given.call_id, resolution, given.checked_item_id(item_id))


def _set_limits(engine: Engine, settings: Settings, given: _SetLimitsArguments, item_id: str) -> None:
    control.set_limits(engine, given.task_id, given.limits, given.checked_item_id(item_id), given.by)


def _retry(engine: Engine, settings: Settings, given: _RetryArguments, item_id: str) -> bool:
    reason = parse_message(given.reason, "reason") if given.reason else ""
    retry = Retry(reason=reason, limits=given.limits.overrides(), item_id=given.item_id or "")
    return retry_task(engine, given.task_id, retry, given.by, given.from_step)


def _fork(engine: Engine, settings: Settings, given: _ForkArguments, item_id: str) -> bool:
    order = ForkRequest(
        source=given.source,
        task_id=given.task_id,
        seq=given.seq,
        message=given.checked_message(engine, fork_item_id(given.task_id)),
        team=None if given.team is None else resolve_sent_team(settings, given.team),
        model=given.model,
        by=given.by,
    )
    return fork(engine, order)


Handler = Callable[[Engine, Settings, Any, str], bool | None]
"""A handler of a command. The last argument is the id of the item if the arguments name none.

It returns True if it has created a task.
"""
_HANDLERS: Final[Mapping[str, tuple[type[_TaskArguments], Handler]]] = MappingProxyType(
    {
        names.SEND_TASK: (_SendArguments, _send),
        names.INTERRUPT_TASK: (_MessageArguments, _interrupt),
        names.STOP_TASK: (_StopArguments, _stop),
        names.PAUSE_TASK: (_ItemArguments, partial(_pause, control.pause)),
        names.RESUME_TASK: (_ItemArguments, partial(_pause, control.resume)),
        names.STEP_TASK: (_ItemArguments, partial(_pause, control.step)),
        names.ANSWER_TASK: (_AnswerArguments, _answer),
        names.APPROVE_TASK: (_ApproveArguments, _approve),
        names.DENY_TASK: (_DenyArguments, _deny),
        names.RESOLVE_TASK: (_ResolveArguments, _resolve),
        names.FORK_TASK: (_ForkArguments, _fork),
        names.SET_LIMITS_TASK: (_SetLimitsArguments, _set_limits),
        names.RETRY_TASK: (_RetryArguments, _retry),
    }
)


def handle(
    engine: Engine, settings: Settings, name: str, arguments: dict[str, Any], item_id: str, way: Way = "celery"
) -> bool | None:
    """Handle the command of this name. Return True if it has created a task.

    If it is refused, publish the error to the task's followers and raise it. If the arguments have a `tenant`, their
    task ids are those that the tenant uses. `item_id` is the id of its item if the arguments name none.
    """
    with audited(_act_of(name, {"item_id": item_id} | arguments, way), settings.audit_log):
        if (tenant := arguments.get("tenant")) is not None:
            ids = {one: qualified_id(tenant, arguments[one]) for one in ("task_id", "source") if one in arguments}
            arguments = {one: value for one, value in arguments.items() if one != "tenant"} | ids
        try:
            if name == names.SUBMIT_TASK:
                _submit(engine, settings, arguments)
                return None
            model, handler = _HANDLERS[name]
            return handler(engine, settings, parse_arguments(model, arguments), item_id)
        except (UsageError, Overloaded) as error:
            publish_refusal(engine, arguments.get("task_id"), error)
            raise


def handle_task_command(
    engine: Engine, settings: Settings, name: str, arguments: dict[str, Any], item_id: str
) -> bool | None:
    """Handle a command of this process, as `handle` does. If it names no caller, that of the settings counts."""
    if arguments.get("by") is None and settings.caller is not None:
        arguments = arguments | {"by": settings.caller}
    return handle(engine, settings, name, arguments, item_id, "client")


def _submit(engine: Engine, settings: Settings, arguments: dict[str, Any]) -> None:
    from roboco.engine.coordinate.submit import submit  # workers alone receive it: a task has been submitted before

    submission = parse_submission(arguments)
    for target in submission.notify:
        check_callback(target, settings.allowlist.callbacks)
    submit(engine, submission, resolve_sent_team(settings, submission.team))


def publish_refusal(engine: Engine, task_id: object, error: UsageError | Overloaded) -> None:
    """Publish the error to followers of the task, unless the id is that of none."""
    if isinstance(task_id, str) and is_task_id(task_id):
        event = ErrorOccurred(task_id=task_id, timestamp=engine.now(), code="refused", message=str(error)[:4000])
        engine.tasks.event_logs.publish_unlogged(task_id, event)


def _act_of(name: str, arguments: dict[str, Any], way: Way) -> Act:
    """Return the command as the audit log shows it. Nothing of it is checked yet."""
    shown = {short: arguments.get(field) for short, field in _AUDITED_FIELDS.items()}
    details: dict[str, Any] = {
        short: value[:MAX_ID_CHARS] for short, value in shown.items() if isinstance(value, str) and value
    }
    if name == names.SET_LIMITS_TASK or (name == names.RETRY_TASK and arguments.get("limits")):
        details["limits"] = _checked_limits(arguments.get("limits"))
    by, task_id, tenant = (arguments.get(field) for field in ("by", "task_id", "tenant"))
    if isinstance(task_id, str) and isinstance(tenant, str) and ":" not in task_id:
        task_id = f"{tenant}:{task_id}"
    return Act(
        name.removeprefix("roboco."),
        by if isinstance(by, str) else None,
        task_id if isinstance(task_id, str) else None,
        way,
        details,
    )


def _checked_limits(limits: object) -> dict[str, Any] | None:
    """Return the limits that the command sets, or None if they are wrong, or longer than a line may show."""
    try:
        checked = LimitOverrides.model_validate(limits).overrides()
    except (ValidationError, RecursionError):
        return None
    return checked if len(canonical_json(checked)) <= MAX_LIMITS_CHARS else None
