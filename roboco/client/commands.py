"""commands: handle the Celery tasks by which other services submit and control tasks.

    message ─► handler of its name ─► arguments checked ─► intake ─► accepted
                                           └─► UsageError, also published to the task's followers

A command may be delivered twice. The Celery task id is the default item id, so the second delivery changes nothing.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from roboco.adapters.celery import names
from roboco.client.team_lookup import resolve_sent_team
from roboco.domain.history.part import ToolResult
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.ids import check_item_id, check_task_id, fork_item_id, of_tenant
from roboco.domain.inbox.attachments import Brought
from roboco.domain.inbox.item import Message, Stop
from roboco.domain.inbox.submission import read_arguments, read_message, read_result, read_submission
from roboco.domain.limits import RaisedLimits
from roboco.domain.notification import check_callback
from roboco.domain.schema import Declared
from roboco.domain.stream.event import ErrorOccurred
from roboco.engine.coordinator.submit import submit
from roboco.engine.engine import Engine
from roboco.engine.intake import answer, pause, send
from roboco.engine.intake.accept import receive
from roboco.engine.intake.fork import ForkOrder, fork
from roboco.engine.intake.limits import raise_limits
from roboco.errors import Overloaded, UsageError
from roboco.settings import Settings

RESERVED = ("answer-", "verdict-", "change-", "stop-", "fork-", "outage-", "resumed-")
"""Prefixes of item ids that Roboco creates itself."""


class _OfTask(Declared):
    model_config = ConfigDict(strict=True)

    task_id: str


class _Request(_OfTask):
    item_id: str | None = None

    def item(self, given: str) -> str:
        """Return the caller's item id, or else the given one. Raise UsageError if its prefix is reserved."""
        if self.item_id is None:
            return check_item_id(given)
        if self.item_id.startswith(RESERVED):
            raise UsageError(f"item_id: {self.item_id[:80]!r} has a prefix that Roboco reserves: {', '.join(RESERVED)}")
        return check_item_id(self.item_id)


class _Interrupt(_Request, Brought):
    """A message that interrupts the work in progress."""

    message: str
    agent: str | None = None
    """The agent that answers the message; None to let the team decide."""


class _Send(_Interrupt):
    while_working: Literal["queue", "interrupt", "reject"] | None = None


_Reason = Annotated[str, Field(max_length=4000)]


class _Stop(_Request):
    reason: _Reason = "stopped by the user"


class _Answer(_OfTask):
    """The result of a client tool."""

    call_id: str
    status: Literal["success", "error", "declined"] = "success"
    result: JsonValue = None
    """The result of a successful call: any JSON value."""
    error: _Reason | None = None
    """The reason why there is no result."""
    runtime_ms: int = Field(default=0, ge=0)


class _Approve(_OfTask):
    call_id: str
    args: dict[str, JsonValue] | None = None
    reason: _Reason = ""


class _Deny(_OfTask):
    call_id: str
    reason: _Reason = ""


class _Resolve(_Request):
    call_id: str
    happened: bool
    result: JsonValue = None


class _RaiseLimits(_Request):
    limits: RaisedLimits


class _Fork(_OfTask, Brought):
    source: str
    seq: int | None = None
    message: str | None = None
    agent: str | None = None
    team: str | dict[str, JsonValue] | None = None
    model: str | None = None


Take = Callable[[Engine, Settings, dict[str, Any], str], None]
"""A handler of a command. The last argument is the id of the item if the arguments name none."""


def _take_submission(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    submission = read_submission(arguments)
    for target in submission.notify:
        check_callback(target, settings.allowed_callbacks)
    submit(engine, submission, resolve_sent_team(settings, submission.team))


def _take_send(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Send, arguments)
    send.send(engine, check_task_id(asked.task_id), _message(engine, asked, item_id), asked.while_working)


def _take_interrupt(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Interrupt, arguments)
    send.send(engine, check_task_id(asked.task_id), _message(engine, asked, item_id), "interrupt")


def _message(engine: Engine, asked: _Interrupt, item_id: str) -> Message:
    asked.check()
    artifacts = send.check_brought(engine, check_task_id(asked.task_id), asked)
    return Message(
        item_id=asked.item(item_id),
        created_at=engine.now(),
        text=read_message(asked.message),
        agent=asked.agent,
        brought=asked.metadata(),
        artifacts=artifacts,
    )


def _take_stop(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Stop, arguments)
    reason = read_message(asked.reason, "reason")
    stop = Stop(item_id=asked.item(item_id), created_at=engine.now(), reason=reason)
    receive(engine, check_task_id(asked.task_id), stop)


def _take_hold(act: Callable[[Engine, str, str], None]) -> Take:
    def take(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
        asked = read_arguments(_Request, arguments)
        act(engine, check_task_id(asked.task_id), asked.item(item_id))

    return take


def _take_answer(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Answer, arguments)
    if asked.status != "success" and asked.result is not None:
        raise UsageError(f"result: a call with status {asked.status!r} has no result; pass the reason in 'error'")
    if asked.status == "success" and asked.error is not None:
        raise UsageError("error: a call with status 'success' has no error")
    failed = {"success": None, "error": "the client could not run it", "declined": "declined by the client"}
    result = ToolResult(
        tool_call_id=asked.call_id,
        result=read_result(asked.result, most=answer.MAX_EXTERNAL_RESULT_CHARS),
        is_error=asked.status != "success",
        error=": ".join(filter(None, (failed[asked.status], asked.error))) or None,
        runtime_ms=asked.runtime_ms,
    )
    answer.answer(engine, check_task_id(asked.task_id), Outcome(result=result))


def _take_approve(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Approve, arguments)
    args = read_result(asked.args, "args")
    answer.decide_approval(engine, check_task_id(asked.task_id), asked.call_id, True, asked.reason, args)


def _take_deny(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Deny, arguments)
    answer.decide_approval(engine, check_task_id(asked.task_id), asked.call_id, False, asked.reason, None)


def _take_resolve(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Resolve, arguments)
    result = read_result(asked.result)
    if result is not None and not asked.happened:
        raise UsageError("result: a call that did not happen has no result")
    answer.resolve_unknown(
        engine, check_task_id(asked.task_id), asked.call_id, asked.happened, result, asked.item(item_id)
    )


def _take_raise_limits(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_RaiseLimits, arguments)
    raise_limits(engine, check_task_id(asked.task_id), asked.limits, asked.item(item_id))


def _take_fork(engine: Engine, settings: Settings, arguments: dict[str, Any], item_id: str) -> None:
    asked = read_arguments(_Fork, arguments)
    spoken = None
    if asked.message is not None:
        given = asked.model_dump(by_alias=True, include={"task_id", "message", "agent", *Brought.model_fields})
        spoken = _message(engine, _Interrupt.model_validate(given), fork_item_id(asked.task_id))
    elif asked.agent is not None or asked.metadata():
        raise UsageError("message: is missing; agent, goals, client_tools, client_context and scope need one")
    order = ForkOrder(
        source=asked.source,
        task_id=asked.task_id,
        seq=asked.seq,
        message=spoken,
        team=None if asked.team is None else resolve_sent_team(settings, asked.team),
        model=asked.model,
    )
    fork(engine, order)


TAKE: Final[Mapping[str, Take]] = MappingProxyType(
    {
        names.SUBMIT: _take_submission,
        names.SEND: _take_send,
        names.INTERRUPT: _take_interrupt,
        names.STOP: _take_stop,
        names.PAUSE: _take_hold(pause.pause),
        names.RESUME: _take_hold(pause.resume),
        names.STEP: _take_hold(pause.step),
        names.ANSWER: _take_answer,
        names.APPROVE: _take_approve,
        names.DENY: _take_deny,
        names.RESOLVE: _take_resolve,
        names.FORK: _take_fork,
        names.RAISE_LIMITS: _take_raise_limits,
    }
)


def take(engine: Engine, settings: Settings, name: str, arguments: dict[str, Any], item_id: str) -> None:
    """Handle the command of this name. If it is refused, publish the error to the task's followers and raise it.

    If the arguments have a `tenant`, their task ids are those that the tenant uses.
    """
    if (tenant := arguments.get("tenant")) is not None:
        whole = {name: of_tenant(tenant, arguments[name]) for name in ("task_id", "source") if name in arguments}
        arguments = {name: value for name, value in arguments.items() if name != "tenant"} | whole
    try:
        TAKE[name](engine, settings, arguments, item_id)
    except (UsageError, Overloaded) as error:
        _announce(engine, arguments.get("task_id"), error)
        raise


def _announce(engine: Engine, task_id: object, error: UsageError | Overloaded) -> None:
    try:
        known = check_task_id(task_id)
    except UsageError:
        return
    engine.logs.announce(
        known, ErrorOccurred(task_id=known, timestamp=engine.now(), code="refused", message=str(error)[:4000])
    )
