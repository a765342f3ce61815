"""push: the push notification configurations of a task, which are receivers of its notifications.

A client writes its credentials and its token, and reads neither: other keys of its tenant read configurations, too.
"""

from typing import Any, Final

from a2a import types as a2a

from roboco.client.task import Task
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.notification import NotifyTarget
from roboco.domain.status import TaskStatus
from roboco.domain.url import url_error
from roboco.gateway.problem import invalid

_BY_VARIABLE: Final = "secret_env"
"""The scheme of an authentication whose credentials are the variable with the secret that signs the requests."""
_REPORTED: Final = [str(status) for status in TaskStatus if status.ended or status.waiting]


def receiver_of(config: a2a.TaskPushNotificationConfig, task_id: str, context_id: str) -> NotifyTarget:
    """Return the receiver of a configuration for this task of a context. Without an id, it has that of the task."""
    if mistake := url_error(config.url):
        raise invalid(f"url: {mistake}")
    auth, target = config.authentication, {"webhook": config.url, "on": _REPORTED}
    push = {
        "id": config.id or task_id,
        "task_id": task_id,
        "context_id": context_id,
        "token": config.token,
    }
    if auth.scheme == _BY_VARIABLE:
        target["secret_env"] = auth.credentials
    elif auth.scheme:
        push["authorization"] = f"{auth.scheme} {auth.credentials}".rstrip()
    return parse_arguments(NotifyTarget, {**target, "push": push})


def config_of(receiver: NotifyTarget) -> a2a.TaskPushNotificationConfig:
    """Return the configuration of a receiver, without the secrets of the client, and so without a query of the URL."""
    push = receiver.push
    assert push is not None
    shown: dict[str, Any] = {}
    if receiver.secret_env is not None:
        shown = {"scheme": _BY_VARIABLE, "credentials": receiver.secret_env}
    elif push.authorization:
        shown = {"scheme": push.authorization.partition(" ")[0]}
    return a2a.TaskPushNotificationConfig(
        id=push.id, task_id=push.task_id, url=receiver.label, authentication=shown or None
    )


def check(task: Task, receiver: NotifyTarget) -> None:
    """Raise the error of A2A if the task, or the one that goes on after it, cannot have the receiver. It blocks."""
    assert receiver.push is not None
    if not task.takes_push_receivers():
        raise a2a.PushNotificationNotSupportedError(
            "the task began without push notifications, in another way or by an earlier release: begin another context"
        )
    if not task.summary().status.ended:  # else the next task of the context gets it, and has none
        task.check_push_receiver(receiver.push.id)
