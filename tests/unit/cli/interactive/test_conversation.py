"""A conversation asks the user when the team waits, and only then; Ctrl-C lets the user interject."""

import os
import queue
import signal
from collections.abc import Iterator
from typing import Any, cast

import pytest

from roboco import StreamItem, TaskStatus, TaskSummary
from roboco.cli.interactive.conversation import Conversation
from roboco.cli.terminal.signals import Interrupted, install_signal_handlers
from roboco.client.task import Task
from roboco.domain.stream.item import ItemData, stream_item
from tests.unit.cli.live_items import STARTED_AT, event

RUNNING = event("status", status="running", reason="")
WAITS = event("status", status="user_turn", reason="")
MESSAGE = event("user_message", step_id="step_1", text="go on")
ENDED = event("task_end", status="completed", reason="")


class ScriptedTask:
    """A task that streams these items, and `answers` after a message or a stop."""

    def __init__(self, *items: ItemData | Exception, status: TaskStatus, answers: tuple[ItemData, ...] = ()) -> None:
        self.task_id = "t"
        self.sent: list[str] = []
        self._items: queue.Queue[ItemData | Exception] = queue.Queue()
        self._answers = answers
        self._status = status
        self._put(*items)

    def _put(self, *items: ItemData | Exception) -> None:
        for item in items:
            self._items.put(item)

    def stream(self, cursor: str | None = None, *, subtasks: bool = False) -> Iterator[StreamItem]:
        while True:
            item = self._items.get()
            if isinstance(item, Exception):
                raise item
            yield stream_item(item, "")

    def summary(self) -> TaskSummary:
        return TaskSummary(task_id="t", team="t", status=self._status, created_at=STARTED_AT, updated_at=STARTED_AT)

    def send(self, message: str) -> None:
        self.sent.append(message)
        self._put(*self._answers)

    def stop(self, reason: str) -> None:
        self.send(reason)


class ShownItems(list[StreamItem]):
    """The items that are shown; Ctrl-C is pressed `pressed` times after the first one."""

    def __init__(self, pressed: int = 0) -> None:
        super().__init__()
        self._pressed = pressed

    def show(self, item: StreamItem) -> None:
        self.append(item)
        for _ in range(self._pressed if len(self) == 1 else 0):
            os.kill(os.getpid(), signal.SIGINT)


class ScriptedUser:
    """A user who gives the same answer to every question, or none."""

    def __init__(self, task: ScriptedTask, says: str = "", interjects: bool = True) -> None:
        self.interjects = interjects
        self.questions: list[str] = []
        self._task = task
        self._says = says

    def answer(self, status: TaskStatus) -> bool:
        return self._say(status)

    def interject(self) -> bool:
        return self._say("interject")

    def _say(self, question: str) -> bool:
        self.questions.append(question)
        if self._says:
            self._task.send(self._says)
        return bool(self._says)


def conversation(task: ScriptedTask, shown: ShownItems, **options: Any) -> Conversation:
    """Return a conversation about the task."""
    return Conversation(cast(Task, task), shown.show, **options)


@pytest.fixture
def _signals() -> Iterator[None]:
    """Install the signal handlers of the command line, and restore the others."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    install_signal_handlers()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_no_user_is_asked_without_a_terminal() -> None:
    task, shown = ScriptedTask(RUNNING, WAITS, status=TaskStatus.USER_TURN), ShownItems()
    assert conversation(task, shown).follow() is TaskStatus.USER_TURN
    assert [item.data for item in shown] == [RUNNING, WAITS]


def test_the_answer_of_the_user_is_sent() -> None:
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN, answers=(MESSAGE, RUNNING, ENDED))
    assert conversation(task, ShownItems(), user=ScriptedUser(task, "go on")).follow() is TaskStatus.COMPLETED
    assert task.sent == ["go on"]


def test_no_answer_leaves_the_task_waiting() -> None:
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN)
    user = ScriptedUser(task)
    assert conversation(task, ShownItems(), user=user).follow() is TaskStatus.USER_TURN
    assert user.questions == [TaskStatus.USER_TURN]


def test_the_user_is_not_asked_about_a_past_wait() -> None:
    task = ScriptedTask(WAITS, MESSAGE, RUNNING, WAITS, RUNNING, ENDED, status=TaskStatus.COMPLETED)
    user = ScriptedUser(task)
    conversation(task, ShownItems(), user=user).follow()
    assert user.questions == []


@pytest.mark.usefixtures("_signals")
def test_ctrl_c_lets_the_user_interject() -> None:
    task = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(MESSAGE, ENDED))
    user, shown = ScriptedUser(task, "be brief"), ShownItems(pressed=1)
    assert conversation(task, shown, user=user).follow() is TaskStatus.COMPLETED
    assert user.questions == ["interject"]
    assert [item.data for item in shown] == [RUNNING, MESSAGE, ENDED]


@pytest.mark.usefixtures("_signals")
def test_ctrl_c_without_a_message_continues() -> None:
    task = ScriptedTask(RUNNING, MESSAGE, ENDED, status=TaskStatus.RUNNING)
    user = ScriptedUser(task)
    assert conversation(task, ShownItems(pressed=1), user=user).follow() is TaskStatus.COMPLETED
    assert user.questions == ["interject"]
    assert task.sent == []


@pytest.mark.usefixtures("_signals")
def test_after_an_interjection_the_user_is_not_asked_about_the_wait() -> None:
    """The step that ends the wait may be committed later."""
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN)
    user, next_items = ScriptedUser(task, "be brief"), iter((None, ENDED))

    def check() -> None:
        if (item := next(next_items, None)) is not None:
            task._put(item)

    assert conversation(task, ShownItems(pressed=1), user=user, check=check).follow() is TaskStatus.COMPLETED
    assert user.questions == ["interject"]


@pytest.mark.usefixtures("_signals")
def test_ctrl_c_twice_ends_the_conversation() -> None:
    task = ScriptedTask(RUNNING, ENDED, status=TaskStatus.RUNNING)
    user = ScriptedUser(task)
    with pytest.raises(Interrupted):
        conversation(task, ShownItems(pressed=2), user=user).follow()
    assert user.questions == []


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("has_user", [True, False])
def test_ctrl_c_without_a_terminal_ends_the_conversation(has_user: bool) -> None:
    task = ScriptedTask(RUNNING, ENDED, status=TaskStatus.RUNNING)
    user = ScriptedUser(task, interjects=False) if has_user else None
    with pytest.raises(Interrupted):
        conversation(task, ShownItems(pressed=1), user=user).follow()


def test_stop_shows_the_remaining_items() -> None:
    cancelled = event("task_end", status="cancelled", reason="enough")
    task, shown = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(cancelled,)), ShownItems()
    assert conversation(task, shown).stop("enough", 5) is TaskStatus.CANCELLED
    assert shown[-1].data == cancelled
    endless = conversation(ScriptedTask(RUNNING, status=TaskStatus.RUNNING), shown)
    with pytest.raises(TimeoutError, match=r"'t' has not ended within 0\.3 s"):
        endless.stop("enough", 0.3)


def test_errors_of_the_stream_and_the_check_are_raised() -> None:
    broken = conversation(ScriptedTask(OSError("gone"), status=TaskStatus.RUNNING), ShownItems())
    with pytest.raises(OSError, match="gone"):
        broken.follow()

    def check() -> None:
        raise OSError("a worker died")

    with pytest.raises(OSError, match="a worker died"):
        conversation(ScriptedTask(RUNNING, status=TaskStatus.RUNNING), ShownItems(), check=check).follow()
