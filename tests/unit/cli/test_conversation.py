"""A conversation asks the user when the team waits, and only then."""

import queue
from collections.abc import Iterator

import pytest

from roboco import StreamItem, TaskStatus, TaskSummary
from roboco.cli.conversation import Conversation
from roboco.domain.view import Shown
from tests.unit.cli.shown import BEGAN, event

RUNNING = event("status", status="running", reason="")
WAITS = event("status", status="user_turn", reason="")
SPOKE = event("user_message", step_id="step_1", text="go on")
ENDED = event("task_end", status="completed", reason="")


class ScriptedTask:
    """Streams what is put into it; `answers` come when a message is sent, or the task is stopped."""

    def __init__(self, *items: Shown | Exception, status: TaskStatus, answers: tuple[Shown, ...] = ()) -> None:
        self.task_id = "t"
        self.told: list[str] = []
        self._items: queue.Queue[Shown | Exception] = queue.Queue()
        self._answers = answers
        self._status = status
        self._put(*items)

    def _put(self, *items: Shown | Exception) -> None:
        for item in items:
            self._items.put(item)

    def stream(self, cursor: str | None = None) -> Iterator[StreamItem]:
        while True:
            item = self._items.get()
            if isinstance(item, Exception):
                raise item
            yield StreamItem(item, "")

    def summary(self) -> TaskSummary:
        return TaskSummary(task_id="t", team="t", status=self._status, created_at=BEGAN, updated_at=BEGAN)

    def send(self, message: str) -> None:
        self.told.append(message)
        self._put(*self._answers)

    def stop(self, reason: str) -> None:
        self.send(reason)


class Seen(list[StreamItem]):
    """Keeps what is shown."""

    def show(self, item: StreamItem) -> None:
        self.append(item)


def test_nobody_is_asked_without_a_terminal() -> None:
    task, seen = ScriptedTask(RUNNING, WAITS, status=TaskStatus.USER_TURN), Seen()
    assert Conversation(task, seen).follow() is TaskStatus.USER_TURN
    assert [item.item for item in seen] == [RUNNING, WAITS]


def test_the_answer_is_sent() -> None:
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN, answers=(SPOKE, RUNNING, ENDED))
    assert Conversation(task, Seen(), ask=lambda: "go on").follow() is TaskStatus.COMPLETED
    assert task.told == ["go on"]


def test_no_answer_leaves_the_task_waiting() -> None:
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN)
    assert Conversation(task, Seen(), ask=lambda: None).follow() is TaskStatus.USER_TURN


def test_a_wait_that_is_over_is_not_asked_about() -> None:
    asked: list[str] = []
    task = ScriptedTask(WAITS, SPOKE, RUNNING, WAITS, RUNNING, ENDED, status=TaskStatus.COMPLETED)
    Conversation(task, Seen(), ask=lambda: asked.append("asked")).follow()
    assert asked == []


def test_stop_shows_the_rest() -> None:
    cancelled = event("task_end", status="cancelled", reason="enough")
    task, seen = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(cancelled,)), Seen()
    assert Conversation(task, seen).stop("enough", 5) is TaskStatus.CANCELLED
    assert seen[-1].item == cancelled
    stubborn = Conversation(ScriptedTask(RUNNING, status=TaskStatus.RUNNING), seen)
    with pytest.raises(TimeoutError, match=r"'t' has not ended within 0\.3 s"):
        stubborn.stop("enough", 0.3)


def test_what_fails_is_raised() -> None:
    broken = Conversation(ScriptedTask(OSError("gone"), status=TaskStatus.RUNNING), Seen())
    with pytest.raises(OSError, match="gone"):
        broken.follow()

    def look() -> None:
        raise OSError("a worker died")

    with pytest.raises(OSError, match="a worker died"):
        Conversation(ScriptedTask(RUNNING, status=TaskStatus.RUNNING), Seen(), look=look).follow()
