"""Conversation: a task's stream on the screen until its end, with the answers and interjections of the user."""

import time
from collections.abc import AsyncGenerator, Callable
from queue import Empty
from typing import Final

from roboco.cli.interactive.user import TerminalUser
from roboco.cli.terminal.signals import record_ctrl_c
from roboco.client.blocking import ReadAhead
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged, TaskEnded, UserMessageAdded
from roboco.domain.stream.item import StreamItem

QUIET_AFTER: Final = 0.25
"""Seconds without an item after which the stream counts as quiet."""


class Conversation:
    """Shows the items of a task's stream.

    It asks the `user` when the task waits for input, and after Ctrl-C. It calls `check` whenever the stream is quiet;
    `check` may raise to end the conversation. Without a user it ends when the task waits, unless it `watches` the task.
    """

    def __init__(
        self,
        task: Task,
        items: AsyncGenerator[StreamItem, None],
        show: Callable[[StreamItem], None],
        *,
        user: TerminalUser | None = None,
        check: Callable[[], None] = lambda: None,
        watches: bool = False,
    ) -> None:
        self.cursor: str | None = None
        """The cursor of the last item, after which another stream continues."""
        self._task = task
        self._show_item = show
        self._items = ReadAhead(items)
        self._user = user
        self._check = check
        self._watches = watches
        self._waiting = False

    def follow(self, seconds: float | None = None) -> TaskStatus:
        """Show the stream until it ends, or the task waits for input that the user does not give.

        Return its status. Raises TimeoutError after `seconds`.
        """
        if self._user is None or not self._user.interjects:
            return self._follow(seconds, lambda: False)
        with record_ctrl_c() as pressed:
            return self._follow(seconds, pressed)

    def stop(self, reason: str, seconds: float) -> TaskStatus:
        """Stop the task and show the rest of its stream. Return its status.

        Raises TimeoutError if it has not ended after `seconds`.
        """
        if self._user is not None:
            self._user.note_stop()
        self._task.stop(reason)
        self._user, self._waiting = None, False
        return self.follow(seconds)

    def _follow(self, seconds: float | None, pressed: Callable[[], bool]) -> TaskStatus:
        deadline = None if seconds is None else time.monotonic() + seconds
        while deadline is None or time.monotonic() < deadline:
            if self._user is not None and pressed() and self._user.interject():
                self._waiting = False
            try:
                item = self._items.next(QUIET_AFTER)
            except Empty:
                if (status := self._quiet()) is not None:
                    return status
                continue
            if item is None:
                return self._task.summary().status
            if (status := self._show(item)) is not None:
                return status
        raise TimeoutError(f"task {self._task.task_id!r} has not ended within {seconds:g} s")

    def _show(self, item: StreamItem) -> TaskStatus | None:
        """Show the item. Return the task's status if the item ends the task, else None."""
        self._show_item(item)
        self.cursor = item.cursor
        if item.task_id not in ("", self._task.task_id):
            return None
        match item.data:
            case TaskEnded() as ended:
                return ended.status
            case StatusChanged() as changed:
                self._waiting = changed.status.waiting
            case UserMessageAdded():
                self._waiting = False
            case _:
                pass
        return None

    def _quiet(self) -> TaskStatus | None:
        """Ask the user if the task waits for input. Return the task's status if it gets none, else None."""
        self._check()
        if self._watches:
            return None
        status = self._task.summary().status if self._waiting else TaskStatus.RUNNING
        if not status.waiting:
            return None
        if self._user is None or not self._user.answer(status):
            return status
        self._waiting = False
        return None
