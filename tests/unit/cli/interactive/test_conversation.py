"""A conversation asks the user when the team waits, and only then; Ctrl-C lets the user interject."""

import os
import queue
import signal
from collections.abc import Iterator

import pytest

from roboco import StreamItem, TaskStatus, TaskSummary
from roboco.cli.interactive.conversation import Conversation
from roboco.cli.terminal.signals import Interrupted, install_signal_handlers
from roboco.domain.stream.item import ItemData, stream_item
from tests.unit.cli.live_items import BEGAN, event

RUNNING = event("status", status="running", reason="")
WAITS = event("status", status="user_turn", reason="")
SPOKE = event("user_message", step_id="step_1", text="go on")
ENDED = event("task_end", status="completed", reason="")


class ScriptedTask:
    """Streams what is put into it; `answers` come when a message is sent, or the task is stopped."""

    def __init__(self, *items: ItemData | Exception, status: TaskStatus, answers: tuple[ItemData, ...] = ()) -> None:
        self.task_id = "t"
        self.told: list[str] = []
        self._items: queue.Queue[ItemData | Exception] = queue.Queue()
        self._answers = answers
        self._status = status
        self._put(*items)

    def _put(self, *items: ItemData | Exception) -> None:
        for item in items:
            self._items.put(item)

    def stream(self, cursor: str | None = None) -> Iterator[StreamItem]:
        while True:
            item = self._items.get()
            if isinstance(item, Exception):
                raise item
            yield stream_item(item, "")

    def summary(self) -> TaskSummary:
        return TaskSummary(task_id="t", team="t", status=self._status, created_at=BEGAN, updated_at=BEGAN)

    def send(self, message: str) -> None:
        self.told.append(message)
        self._put(*self._answers)

    def stop(self, reason: str) -> None:
        self.send(reason)


class Seen(list[StreamItem]):
    """Keeps what is shown; Ctrl-C is pressed so often after the first item."""

    def __init__(self, pressed: int = 0) -> None:
        super().__init__()
        self._pressed = pressed

    def show(self, item: StreamItem) -> None:
        self.append(item)
        for _ in range(self._pressed if len(self) == 1 else 0):
            os.kill(os.getpid(), signal.SIGINT)


class Present:
    """A person who says the same whenever they are asked, or nothing."""

    def __init__(self, task: ScriptedTask, says: str = "", interjects: bool = True) -> None:
        self.interjects = interjects
        self.asked: list[str] = []
        self._task = task
        self._says = says

    def answer(self, status: TaskStatus) -> bool:
        return self._say(status)

    def interject(self) -> bool:
        return self._say("interject")

    def _say(self, question: str) -> bool:
        self.asked.append(question)
        if self._says:
            self._task.send(self._says)
        return bool(self._says)


@pytest.fixture
def _signals() -> Iterator[None]:
    """Signals as the command line has them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    install_signal_handlers()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_nobody_is_asked_without_a_terminal() -> None:
    task, seen = ScriptedTask(RUNNING, WAITS, status=TaskStatus.USER_TURN), Seen()
    assert Conversation(task, seen).follow() is TaskStatus.USER_TURN
    assert [item.data for item in seen] == [RUNNING, WAITS]


def test_the_answer_is_sent() -> None:
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN, answers=(SPOKE, RUNNING, ENDED))
    assert Conversation(task, Seen(), user=Present(task, "go on")).follow() is TaskStatus.COMPLETED
    assert task.told == ["go on"]


def test_no_answer_leaves_the_task_waiting() -> None:
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN)
    person = Present(task)
    assert Conversation(task, Seen(), user=person).follow() is TaskStatus.USER_TURN
    assert person.asked == [TaskStatus.USER_TURN]


def test_a_wait_that_is_over_is_not_asked_about() -> None:
    task = ScriptedTask(WAITS, SPOKE, RUNNING, WAITS, RUNNING, ENDED, status=TaskStatus.COMPLETED)
    person = Present(task)
    Conversation(task, Seen(), user=person).follow()
    assert person.asked == []


@pytest.mark.usefixtures("_signals")
def test_ctrl_c_lets_the_person_interject() -> None:
    task = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(SPOKE, ENDED))
    person, seen = Present(task, "be brief"), Seen(pressed=1)
    assert Conversation(task, seen, user=person).follow() is TaskStatus.COMPLETED
    assert person.asked == ["interject"]
    assert [item.data for item in seen] == [RUNNING, SPOKE, ENDED]


@pytest.mark.usefixtures("_signals")
def test_ctrl_c_without_a_message_goes_on() -> None:
    task = ScriptedTask(RUNNING, SPOKE, ENDED, status=TaskStatus.RUNNING)
    person = Present(task)
    assert Conversation(task, Seen(pressed=1), user=person).follow() is TaskStatus.COMPLETED
    assert person.asked == ["interject"]
    assert task.told == []


@pytest.mark.usefixtures("_signals")
def test_a_person_who_has_spoken_is_not_asked_about_the_wait_before() -> None:
    """The step that ends the wait may be slow to come."""
    task = ScriptedTask(WAITS, status=TaskStatus.USER_TURN)
    person, looks = Present(task, "be brief"), iter((None, ENDED))

    def look() -> None:
        if (item := next(looks, None)) is not None:
            task._put(item)

    assert Conversation(task, Seen(pressed=1), user=person, check=look).follow() is TaskStatus.COMPLETED
    assert person.asked == ["interject"]


@pytest.mark.usefixtures("_signals")
def test_ctrl_c_twice_ends_it() -> None:
    task = ScriptedTask(RUNNING, ENDED, status=TaskStatus.RUNNING)
    person = Present(task)
    with pytest.raises(Interrupted):
        Conversation(task, Seen(pressed=2), user=person).follow()
    assert person.asked == []


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("there", [True, False])
def test_ctrl_c_without_a_terminal_ends_it(there: bool) -> None:
    task = ScriptedTask(RUNNING, ENDED, status=TaskStatus.RUNNING)
    person = Present(task, interjects=False) if there else None
    with pytest.raises(Interrupted):
        Conversation(task, Seen(pressed=1), user=person).follow()


def test_stop_shows_the_rest() -> None:
    cancelled = event("task_end", status="cancelled", reason="enough")
    task, seen = ScriptedTask(RUNNING, status=TaskStatus.RUNNING, answers=(cancelled,)), Seen()
    assert Conversation(task, seen).stop("enough", 5) is TaskStatus.CANCELLED
    assert seen[-1].data == cancelled
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
        Conversation(ScriptedTask(RUNNING, status=TaskStatus.RUNNING), Seen(), check=look).follow()
