"""The Celery task `roboco.ended`: goes on after a Celery task whose team has ended.

It may come twice, late, and at once to two workers. One at a time goes on: the lease of `attempts` says which, and
another leaves it at that, since the notice comes again until it is confirmed. What was sent is noted (`continued.json`)
before the result is stored, which twice is once. Only if the worker dies between sending and that note, or stands still
there for longer than its lease, is the next Celery task sent twice, with the same id: Celery's own worker does no
better.
"""

from typing import Any

from celery import Celery
from kombu.utils import json

from roboco.adapters.celery.continuation import Continuation
from roboco.client.task import Task
from roboco.domain.canonical_json import canonical
from roboco.domain.history.step import last_said
from roboco.domain.inbox.item import Stop
from roboco.domain.notification import Notice
from roboco.domain.paths import continued_path
from roboco.domain.status import TaskStatus
from roboco.engine import notifications as notify
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import receive
from roboco.engine.record.summaries import known_summary
from roboco.errors import TeamFailed, UsageError


def go_on(app: Celery, engine: Engine, task_id: str, name: str) -> None:
    """Go on with what follows, and confirm the notice of this name; nothing if another worker is at it."""
    key = f"continue:{task_id}"
    if engine.attempts.begin(key) is None:
        return
    try:
        with engine.heartbeat.renewing(lambda: engine.attempts.renew(key), lambda: None):
            _go_on(app, engine, task_id, name)
            notify.confirm(engine, task_id, name)
    except Exception:
        engine.attempts.end(key)
        raise
    engine.attempts.end(key)


def _go_on(app: Celery, engine: Engine, task_id: str, name: str) -> None:
    target, notice = notify.find(engine, task_id, name)
    kept = json.loads(target.kept)
    continuation = Continuation(app, kept["request"])
    completed = notice.status is TaskStatus.COMPLETED
    result = _result(engine, task_id, kept["gives"]) if completed else None
    data = engine.files.get(continued_path(task_id))  # the last look before anything is sent
    sent: dict[str, str] = {} if data is None else json.loads(data)
    if sent and sent["notice"] != name:
        return  # it failed because the team waited, and has ended since
    match TaskStatus(sent["status"]) if sent else _status(continuation, notice):
        case TaskStatus.CANCELLED:
            continuation.revoked(notice.reason)
            _note(engine, notice, TaskStatus.CANCELLED)
            continuation.show("task-revoked", terminated=True, signum=None, expired=False)
        case TaskStatus.COMPLETED:
            if not sent:
                continuation.send(result)
                _note(engine, notice, notice.status)
            continuation.done(result)
            runtime = _seconds(engine, notice)
            continuation.show("task-succeeded", result=repr(f"task {task_id} is {notice.status}"), runtime=runtime)
        case _:
            _fail(engine, continuation, notice, bool(sent))


def _status(continuation: Continuation, notice: Notice) -> TaskStatus:
    """How it goes on: what was revoked stays so, although the team was quicker than the stop."""
    return TaskStatus.CANCELLED if continuation.was_revoked else notice.status


def _fail(engine: Engine, continuation: Continuation, notice: Notice, sent: bool) -> None:
    error = TeamFailed(notice.task_id, str(notice.status), notice.reason)
    if not sent:
        continuation.failed(error)
        continuation.call_errbacks(error)
        _note(engine, notice, notice.status)
    told = f"TeamFailed: task {notice.task_id} is {notice.status}: roboco why {notice.task_id}"  # not what it quotes
    continuation.show("task-failed", exception=told, traceback="")
    if notice.status.waiting:
        _stop(engine, notice)


def _stop(engine: Engine, notice: Notice) -> None:
    """Nobody waits for the team any more."""
    item = Stop(item_id=f"wait-{notice.notice_id[4:]}", created_at=engine.now(), reason="nobody answers it")
    try:
        receive(engine, notice.task_id, item)
    except UsageError:
        return  # it has ended meanwhile


def _note(engine: Engine, notice: Notice, status: TaskStatus) -> None:
    record = canonical({"notice": notice.name, "status": str(status)})
    engine.files.create(continued_path(notice.task_id), record.encode())


def _result(engine: Engine, task_id: str, gives: str) -> Any:
    text = last_said(tuple(engine.histories.read(task_id)))
    if gives == "text":
        return text
    return known_summary(engine, task_id).model_dump(mode="json") | {"text": text}


def _seconds(engine: Engine, notice: Notice) -> float:
    """For how long the team has worked."""
    summary = known_summary(engine, notice.task_id)
    return (notice.time - summary.created_at).total_seconds()


def outcome_of(task: Task, gives: str) -> Any:
    """Wait for the task, for an application that is eager; TeamFailed if it does not come to a good end."""
    result = task.result()
    if result.status is not TaskStatus.COMPLETED:
        raise TeamFailed(result.task_id, str(result.status), result.reason)
    return result.text if gives == "text" else task.summary().model_dump(mode="json") | {"text": result.text}
