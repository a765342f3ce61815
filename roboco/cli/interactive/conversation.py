"""Conversation: a task followed to its end, with what the user answers and interjects."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from roboco.cli.interactive.reader_thread import Feed
from roboco.cli.terminal.signals import ctrl_c_noted
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged, TaskEnded, UserSpoke
from roboco.domain.stream.item import StreamItem
from roboco.domain.task_summary import TaskSummary

PAUSE = 0.25
"""Seconds without an item after which the stream counts as quiet."""


class Display(Protocol):
    """Where a stream is shown."""

    def show(self, item: StreamItem) -> None:
        """Show the item."""


class Followed(Protocol):
    """What a conversation needs of a task."""

    task_id: str

    def stream(self, cursor: str | None = None) -> Iterator[StreamItem]:
        """Everything after the cursor."""

    def summary(self) -> TaskSummary:
        """The task at a glance."""

    def stop(self, reason: str) -> object:
        """End the task now."""


class Present(Protocol):
    """A person who takes part."""

    @property
    def interjects(self) -> bool:
        """Whether Ctrl-C asks for a message."""

    def answer(self, status: TaskStatus) -> bool:
        """Ask for what a task in this status waits for: whether it goes on."""

    def interject(self) -> bool:
        """Ask for a message, and interrupt the team with it: whether that was done."""


class Conversation:
    """Shows a task's stream.

    The `person` is asked where the team waits for somebody, and after Ctrl-C. `look` is called whenever the stream is
    quiet, and may raise to end the conversation.
    """

    def __init__(
        self,
        task: Followed,
        display: Display,
        *,
        person: Present | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._task = task
        self._display = display
        self._feed = Feed(task.stream())
        self._person = person
        self._look = look
        self._waiting = False

    def follow(self, seconds: float | None = None) -> TaskStatus:
        """Show the stream until the task has ended or waits for somebody who is not here: its status then.

        TimeoutError after `seconds`.
        """
        if self._person is None or not self._person.interjects:
            return self._follow(seconds, lambda: False)
        with ctrl_c_noted() as pressed:
            return self._follow(seconds, pressed)

    def stop(self, reason: str, seconds: float) -> TaskStatus:
        """Stop the task and show the rest of its stream; TimeoutError if it has not ended after `seconds`."""
        self._task.stop(reason)
        self._person, self._waiting = None, False
        return self.follow(seconds)

    def _follow(self, seconds: float | None, pressed: Callable[[], bool]) -> TaskStatus:
        deadline = None if seconds is None else time.monotonic() + seconds
        while deadline is None or time.monotonic() < deadline:
            if self._person is not None and pressed() and self._person.interject():
                self._waiting = False
            item = self._feed.next(PAUSE)
            if item is None:
                if (status := self._quiet()) is not None:
                    return status
                continue
            if (status := self._show(item)) is not None:
                return status
        raise TimeoutError(f"task {self._task.task_id!r} has not ended within {seconds:g} s")

    def _show(self, item: StreamItem) -> TaskStatus | None:
        """Show the item; the task's status if it has ended by it."""
        self._display.show(item)
        match item.data:
            case TaskEnded() as ended:
                return ended.status
            case StatusChanged() as changed:
                self._waiting = changed.status.waiting
            case UserSpoke():
                self._waiting = False
            case _:
                pass
        return None

    def _quiet(self) -> TaskStatus | None:
        """Ask the user if the task waits for one; its status if there is no answer to be had."""
        self._look()
        status = self._task.summary().status if self._waiting else TaskStatus.RUNNING
        if not status.waiting:
            return None
        if self._person is None or not self._person.answer(status):
            return status
        self._waiting = False
        return None
