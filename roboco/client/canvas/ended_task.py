"""The Celery task `roboco.ended`: continues a canvas after a Celery task whose team has ended.

Its message may arrive twice, late, and at two workers at the same time. The lease of `attempts` lets one worker
continue the canvas; the other does nothing, since the notification is redelivered until a worker confirms it. It
sends the next Celery task, records that in `continued.json`, and then stores the result, which is idempotent. If the
worker dies between the first two, or is suspended there for longer than its lease, the next Celery task is sent twice,
with the same id. Celery's own worker gives the same guarantee.
"""

from typing import Any

from celery import Celery
from kombu.utils import json

from roboco.broker.continuation import Continuation
from roboco.client.task import Task
from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import OUTPUT, TaskStep, last_answer
from roboco.domain.inbox.item import Stop
from roboco.domain.notification import Notification
from roboco.domain.paths import continued_path
from roboco.domain.status import TaskStatus
from roboco.engine import notifications as notify
from roboco.engine.accept.accept_item import accept_item
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.errors import TaskFailed, UsageError
from roboco.ports.lease_renewals import AttemptLease

NO_OUTPUT = "its last answer has no typed output"
"""Begins the reason of a Celery task that fails because its team has completed in words."""


def continue_canvas(app: Celery, engine: Engine, task_id: str, name: str) -> None:
    """Continue the canvas, and confirm the notification of this name. Do nothing while another worker does it."""
    key = f"continue:{task_id}"
    if engine.tasks.leases.start_attempt(key) is None:
        return
    try:
        with engine.process.heartbeat.renewing(AttemptLease(key)):
            _continue(app, engine, task_id, name)
            notify.confirm(engine, task_id, name)
    except Exception:
        engine.tasks.leases.finish_attempts(key)
        raise
    engine.tasks.leases.finish_attempts(key)


def _continue(app: Celery, engine: Engine, task_id: str, name: str) -> None:
    target, notice = notify.find_notification(engine.workspace, task_id, name)
    stored = json.loads(target.continuation)
    continuation = Continuation(app, stored["request"])
    completed = notice.status is TaskStatus.COMPLETED
    answer = last_answer(tuple(engine.workspace.histories.read(task_id))) if completed else None
    result = _result(engine.workspace, task_id, answer, stored["gives"]) if completed else None
    in_words = completed and stored["gives"] == "output" and not _has_output(answer)
    if in_words:
        notice = notice.model_copy(update={"reason": f"{NO_OUTPUT}: {notice.reason}"})
    data = engine.workspace.files.get(continued_path(task_id))  # read last, just before anything is sent
    sent: dict[str, str] = {} if data is None else json.loads(data)
    if sent and sent["notice"] != name:
        return  # the canvas has failed because the team waited; the task has ended since
    match TaskStatus(sent["status"]) if sent else _final_status(continuation, notice):
        case TaskStatus.CANCELLED:
            continuation.store_revoked(notice.reason)
            _record_continued(engine.workspace, notice, TaskStatus.CANCELLED)
            continuation.send_event("task-revoked", terminated=True, signum=None, expired=False)
        case TaskStatus.COMPLETED if not in_words:
            if not sent:
                continuation.send_next(result)
                _record_continued(engine.workspace, notice, notice.status)
            continuation.store_result(result)
            runtime = _runtime(engine.workspace, notice)
            continuation.send_event(
                "task-succeeded", result=repr(f"task {task_id} is {notice.status}"), runtime=runtime
            )
        case _:
            _fail(engine, continuation, notice, bool(sent))


def _final_status(continuation: Continuation, notice: Notification) -> TaskStatus:
    """Return the status with which the canvas continues: a revoke counts even if the team ended before the stop."""
    return TaskStatus.CANCELLED if continuation.was_revoked else notice.status


def _fail(engine: Engine, continuation: Continuation, notice: Notification, sent: bool) -> None:
    error = TaskFailed(notice.task_id, str(notice.status), notice.reason)
    if not sent:
        continuation.store_error(error)
        _record_continued(engine.workspace, notice, notice.status)
    # Without the reason, which may quote data.
    exception = f"TaskFailed: task {notice.task_id} is {notice.status}: roboco why {notice.task_id}"
    continuation.send_event("task-failed", exception=exception, traceback="")
    if notice.status.waiting:
        _stop(engine, notice)


def _stop(engine: Engine, notice: Notification) -> None:
    """Stop a waiting task: its Celery task has failed, so no caller answers it."""
    item = Stop(
        item_id=f"wait-{notice.notification_id[4:]}",
        created_at=engine.now(),
        reason="its Celery task has failed, and no caller answers",
    )
    try:
        accept_item(engine, notice.task_id, item)
    except UsageError:
        return  # the task has ended in the meantime


def _record_continued(workspace: WorkspaceRecords, notice: Notification, status: TaskStatus) -> None:
    record = canonical_json({"notice": notice.name, "status": str(status)})
    workspace.files.create(continued_path(notice.task_id), record.encode())


def _has_output(answer: TaskStep | None) -> bool:
    return answer is not None and OUTPUT in answer.metadata


def _result(workspace: WorkspaceRecords, task_id: str, answer: TaskStep | None, gives: str) -> Any:
    text = "" if answer is None else answer.text
    match gives:
        case "text":
            return text
        case "output":
            return None if answer is None else answer.metadata.get(OUTPUT)
        case _:
            return workspace.summaries.require(task_id).model_dump(mode="json") | {"text": text}


def _runtime(workspace: WorkspaceRecords, notice: Notification) -> float:
    """Return the seconds from the submission to the end of the task."""
    summary = workspace.summaries.require(notice.task_id)
    return (notice.time - summary.created_at).total_seconds()


def wait_for_result(task: Task, gives: str) -> Any:
    """Wait for the task, for an eager application, and return its result. Raises TaskFailed if it does not complete."""
    result = task.result()
    if result.status is not TaskStatus.COMPLETED:
        raise TaskFailed(result.task_id, str(result.status), result.reason)
    match gives:
        case "text":
            return result.text
        case "output" if not _has_output(last_answer(tuple(task.history()))):
            raise TaskFailed(result.task_id, str(result.status), f"{NO_OUTPUT}: {result.reason}")
        case "output":
            return result.output
        case _:
            return task.summary().model_dump(mode="json") | {"text": result.text}
