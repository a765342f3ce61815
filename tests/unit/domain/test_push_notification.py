"""The state of a task as its A2A client receives it."""

from datetime import UTC, datetime

import pytest
from a2a.types import StreamResponse, TaskState
from google.protobuf.json_format import ParseDict

from roboco.domain.limits import RAISE_LIMIT_HINT
from roboco.domain.push_notification import PushConfig
from roboco.domain.status import TaskStatus

CONFIG = PushConfig(id="a", task_id="t", context_id="c", token="of-the-task")


@pytest.mark.parametrize(
    ("status", "reason", "state"),
    [
        (TaskStatus.PAUSED, "by an operator", TaskState.TASK_STATE_WORKING),
        (TaskStatus.PAUSED, f"max_steps; {RAISE_LIMIT_HINT}", TaskState.TASK_STATE_INPUT_REQUIRED),
        (TaskStatus.GOALS_FAILED, "no goal is met", TaskState.TASK_STATE_FAILED),
    ],
)
def test_the_body_is_an_event_of_the_protocol(status: TaskStatus, reason: str, state: TaskState) -> None:
    update = ParseDict(CONFIG.body(status, reason, datetime.now(UTC), "m"), StreamResponse()).status_update
    assert (update.task_id, update.context_id, update.status.state) == ("t", "c", state)
    assert [part.text for part in update.status.message.parts] == [reason] * bool(reason)


def test_each_status_has_a_state() -> None:
    for status in TaskStatus:
        assert ParseDict(CONFIG.body(status, "", datetime.now(UTC), "m"), StreamResponse()).status_update.status.state


def test_the_headers_are_those_that_the_client_has_given() -> None:
    assert CONFIG.headers() == {"content-type": "application/a2a+json", "x-a2a-notification-token": "of-the-task"}
