"""A conversation asks the user when the team waits, and only then; Ctrl-C lets the user interject."""

import asyncio
import os
import queue
import signal
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

import pytest

from roboco import StreamItem, TaskStatus, TaskSummary
from roboco.cli.interactive.conversation import Conversation
from roboco.cli.terminal.signals import Interrupted, install_signal_handlers
from roboco.client.task import Task
from roboco.domain.stream.item import ItemData, stream_item
from tests.unit.cli.live_items import STARTED_AT, event

RUNNING = event("status", status="running", reason="")
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

    async def astream(self) -> AsyncGenerator[StreamItem, None]:
        while True:
            while self._items.empty():
                await asyncio.sleep(0.01)
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
    return Conversation(cast(Task, task), task.astream(), shown.show, **options)


@pytest.fixture
def _signals() -> Iterator[None]:
    """Install the signal handlers of the command line, and restore the others."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    install_signal_handlers()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals")
def test_ctrl_c_lets_the_user_interject() -> None:
    task = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(MESSAGE, ENDED))
    user, shown = ScriptedUser(task, "be brief"), ShownItems(pressed=1)
    assert conversation(task, shown, user=user).follow() is TaskStatus.COMPLETED
    assert user.questions == ["interject"]
    assert [item.data for item in shown] == [RUNNING, MESSAGE, ENDED]


def test_stop_shows_the_remaining_items() -> None:
    cancelled = event("task_end", status="cancelled", reason="enough")
    task, shown = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(cancelled,)), ShownItems()
    assert conversation(task, shown).stop("enough", 5) is TaskStatus.CANCELLED
    assert shown[-1].data == cancelled
    endless = conversation(ScriptedTask(RUNNING, status=TaskStatus.RUNNING), shown)
    with pytest.raises(TimeoutError, match=r"'t' has not ended within 0\.3 s"):
        endless.stop("enough", 0.3)


@pytest.mark.usefixtures("_signals")
def test_a_conversation_goes_on_after_ctrl_c_while_no_item_arrives() -> None:
    cancelled = event("task_end", status="cancelled", reason="enough")
    task = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(cancelled,))
    interrupted = conversation(task, ShownItems())
    press = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    press.start()
    with pytest.raises(Interrupted):
        interrupted.follow()
    assert interrupted.stop("enough", 5) is TaskStatus.CANCELLED


def test_errors_of_the_stream_and_the_check_are_raised() -> None:
    broken = conversation(ScriptedTask(OSError("gone"), status=TaskStatus.RUNNING), ShownItems())
    with pytest.raises(OSError, match="gone"):
        broken.follow()

    def check() -> None:
        raise OSError("a worker died")

    with pytest.raises(OSError, match="a worker died"):
        conversation(ScriptedTask(RUNNING, status=TaskStatus.RUNNING), ShownItems(), check=check).follow()


def test_a_watched_task_may_wait() -> None:
    waits = event("status", status="user_turn", reason="")
    task, shown = ScriptedTask(waits, status=TaskStatus.USER_TURN, answers=(MESSAGE, ENDED)), ShownItems()

    def check() -> None:
        if not task.sent:
            task.send("go on")

    assert conversation(task, shown, watches=True, check=check).follow() is TaskStatus.COMPLETED
    assert [item.data for item in shown] == [waits, MESSAGE, ENDED]
