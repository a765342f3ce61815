"""Intake: what other services send by name, checked, and answered on the task's channel if it is refused."""

from collections.abc import Callable
from typing import Any, TypeVar

from roboco.adapters.team_file import named_team, team_from
from roboco.domain.event import ErrorOccurred
from roboco.domain.ids import check_item_id, check_task_id
from roboco.domain.inbox import Message, Stop
from roboco.domain.submission import read_message, read_result, read_submission
from roboco.domain.team import Team
from roboco.engine.engine import Engine
from roboco.engine.receive import receive
from roboco.engine.resolve import resolve
from roboco.engine.submit import submit
from roboco.errors import UsageError
from roboco.settings import Settings

T = TypeVar("T")


def take_submission(engine: Engine, settings: Settings, arguments: dict[str, Any]) -> str:
    """Accept the task that the arguments of `roboco.submit` describe: its id. UsageError if they are wrong."""

    def accept() -> str:
        submission = read_submission(arguments)
        submit(engine, submission, _team(settings, submission.team))
        return submission.task_id

    return _told(engine, arguments, accept)


def take_message(engine: Engine, arguments: dict[str, Any], item_id: str) -> None:
    """Accept a message: `task_id`, `message`, and optionally `agent` and `item_id`. UsageError if it is wrong."""

    def accept() -> None:
        known = _only(arguments, "task_id", "message", "agent", "item_id")
        item = Message(
            item_id=check_item_id(known.get("item_id", item_id)),
            created_at=engine.now(),
            text=read_message(known.get("message")),
            agent=known.get("agent"),
        )
        receive(engine, check_task_id(known.get("task_id")), item)

    _told(engine, arguments, accept)


def take_stop(engine: Engine, arguments: dict[str, Any], item_id: str) -> None:
    """Accept a stop: `task_id`, and optionally `reason` and `item_id`. UsageError if it is wrong."""

    def accept() -> None:
        known = _only(arguments, "task_id", "reason", "item_id")
        item = Stop(
            item_id=check_item_id(known.get("item_id", item_id)),
            created_at=engine.now(),
            reason=read_message(known.get("reason", "stopped by the user")),
        )
        receive(engine, check_task_id(known.get("task_id")), item)

    _told(engine, arguments, accept)


def take_resolution(engine: Engine, arguments: dict[str, Any], item_id: str) -> None:
    """Accept a person's word on a tool call whose outcome nobody knows. UsageError if it is wrong.

    `task_id`, `call_id`, `happened` (true or false), and optionally `result` (any JSON) and `item_id`.
    """

    def accept() -> None:
        happened, result = arguments.get("happened"), read_result(arguments.get("result"))
        texts = {name: value for name, value in arguments.items() if name not in ("happened", "result")}
        known = _only(texts, "task_id", "call_id", "item_id", also=("happened", "result"))
        if not isinstance(happened, bool):
            raise UsageError(f"happened: must be true or false (found {happened!r:.60})")
        if result is not None and not happened:
            raise UsageError("result: a call without an effect has none")
        task_id, call_id = check_task_id(known.get("task_id")), known.get("call_id", "")
        resolve(engine, task_id, call_id, happened, result, check_item_id(known.get("item_id", item_id)))

    _told(engine, arguments, accept)


def _team(settings: Settings, team: str | dict[str, Any]) -> Team:
    return named_team(settings.teams, team) if isinstance(team, str) else team_from(team)


def _only(arguments: dict[str, Any], *possible: str, also: tuple[str, ...] = ()) -> dict[str, Any]:
    unknown = sorted(set(arguments) - set(possible))
    if unknown:
        named = ", ".join([*possible, *also])
        raise UsageError(f"no such argument {', '.join(map(repr, unknown))}, possible are {named}")
    wrong = [name for name in arguments if arguments[name] is not None and not isinstance(arguments[name], str)]
    if wrong:
        raise UsageError(f"{', '.join(wrong)}: must be a text (found {arguments[wrong[0]]!r:.60})")
    return {name: value for name, value in arguments.items() if value is not None}


def _told(engine: Engine, arguments: dict[str, Any], accept: Callable[[], T]) -> T:
    try:
        return accept()
    except UsageError as error:
        _announce(engine, arguments.get("task_id"), error)
        raise


def _announce(engine: Engine, task_id: object, error: UsageError) -> None:
    try:
        known = check_task_id(task_id)
    except UsageError:
        return
    engine.logs.announce(
        known, ErrorOccurred(task_id=known, timestamp=engine.now(), code="refused", message=str(error)[:4000])
    )
