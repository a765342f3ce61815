"""Conversation: a task followed to its end, with the user's answers where the team asks for them."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from roboco.cli.feed import Feed
from roboco.domain.event import StatusChanged, TaskEnded, UserSpoke
from roboco.domain.status import TaskStatus
from roboco.domain.summary import TaskSummary
from roboco.domain.view import StreamItem

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

    def send(self, message: str) -> object:
        """Add a message of the user."""

    def stop(self, reason: str) -> object:
        """End the task now."""


class Conversation:
    """Shows a task's stream from `cursor` on.

    `ask` gives the user's next message, or None if the user has none; without it nobody is asked. `look` is
    called whenever the stream is quiet, and may raise to end the conversation.
    """

    def __init__(
        self,
        task: Followed,
        display: Display,
        *,
        cursor: str | None = None,
        ask: Callable[[], str | None] | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._task = task
        self._display = display
        self._feed = Feed(task.stream(cursor))
        self._ask = ask
        self._look = look
        self._waiting = False

    def follow(self, seconds: float | None = None) -> TaskStatus:
        """Show the stream until the task has ended or waits for somebody who is not here: its status then.

        TimeoutError after `seconds`.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while deadline is None or time.monotonic() < deadline:
            item = self._feed.next(PAUSE)
            if item is None:
                if (status := self._quiet()) is not None:
                    return status
                continue
            self._display.show(item)
            match item.item:
                case TaskEnded() as ended:
                    return ended.status
                case StatusChanged() as changed:
                    self._waiting = changed.status.waiting
                case UserSpoke():
                    self._waiting = False
                case _:
                    pass
        raise TimeoutError(f"task {self._task.task_id!r} has not ended within {seconds:g} s")

    def stop(self, reason: str, seconds: float) -> TaskStatus:
        """Stop the task and show the rest of its stream; TimeoutError if it has not ended after `seconds`."""
        self._task.stop(reason)
        self._ask, self._waiting = None, False
        return self.follow(seconds)

    def _quiet(self) -> TaskStatus | None:
        """Ask the user if the task waits for one; its status if there is no answer to be had."""
        self._look()
        status = self._task.summary().status if self._waiting else TaskStatus.RUNNING
        if not status.waiting:
            return None
        message = self._ask() if self._ask is not None and status is TaskStatus.USER_TURN else None
        if message is None:
            return status
        self._waiting = False
        self._task.send(message)
        return None
