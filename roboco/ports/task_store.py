"""The task store: the state of tasks in Redis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from roboco.domain.history.step import TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.stream.event import AnyEvent
from roboco.domain.usage import number_or_zero
from roboco.ports.snapshot import Decision, Snapshot

MAX_LOGGED_CHUNKS = 1000
"""Chunks of a committed step that its log keeps at most."""
MAX_LOGGED_BYTES = 32 * 1024
"""The same in bytes, by an estimate."""
_CHUNK_BYTES = 300
"""Bytes of a chunk beside its text, as an estimate."""


@dataclass(frozen=True)
class Commit:
    """A stored step, the state of the history after it, and its events for followers."""

    step: TaskStep
    state: TaskState
    events: Sequence[AnyEvent]

    @property
    def kept_chunks(self) -> int | None:
        """The number of newest chunks that the content log keeps, or None for all.

        After an agent's step it keeps the chunks of that step's attempt, for followers that are a little late, if they
        are few. A part of them would be useless: a follower without all of them gets the text from the history.
        """
        if not self.step.by_agent:
            return None
        chunks = int(number_or_zero(self.step.metadata.get("chunks")))
        size = chunks * _CHUNK_BYTES + len(self.step.text.encode())
        return chunks if chunks <= MAX_LOGGED_CHUNKS and size <= MAX_LOGGED_BYTES else 0


class TaskStore(Protocol):
    """The state of tasks in Redis. It can be rebuilt from the workspace."""

    def load(self, task_id: str, tail: int) -> Snapshot | None:
        """Return the task with at most `tail` of its newest steps, or None if the store does not have it.

        There may be fewer, because the store bounds their bytes; the history has the others.
        """

    def fault(self, task_id: str) -> str:
        """Return why the store takes no writes of the task, with the remedy, or "".

        Raise TransientError if it does not answer.
        """

    def eviction(self) -> str:
        """Return that the store has evicted keys, with the remedy, or "". Raise TransientError as `fault` does."""

    def memory_share(self, task_id: str) -> float:
        """Return the part of its memory that the server of the task uses, from 0 to 1; 0 if it has no limit.

        It may be a second old.
        """

    def create(
        self,
        task_id: str,
        steps: Sequence[TaskStep],
        state: TaskState,
        events: Sequence[AnyEvent],
        above_epoch: int = 0,
    ) -> bool:
        """Create the task, idle, with these newest steps. Return False, and change nothing, if it exists.

        The fence starts at the server's time in milliseconds, and in any case above the epoch `above_epoch`. The
        generation of the logs sorts after all earlier ones of the task that began below that number.
        """

    def create_with_decision(
        self,
        task_id: str,
        steps: Sequence[TaskStep],
        state: TaskState,
        events: Sequence[AnyEvent],
        decision: Decision,
        decision_events: Sequence[AnyEvent],
    ) -> int | None:
        """Create, and record the decision unless an item waits, in one transaction. Return the new epoch.

        Return None if the decision was not recorded. The task may have been created nevertheless.
        """

    def record_decision(self, task_id: str, epoch: int, decision: Decision, events: Sequence[AnyEvent]) -> int | None:
        """Record the decision and move the fence.

        Return the new epoch, or None if the fence had moved or the decision is void.
        """

    def commit(self, task_id: str, epoch: int, commit: Commit) -> bool:
        """Apply a stored step: the task becomes idle and the fence moves. An ended task does not expire any more.

        Return True also if the step was applied before. Return False if the fence had moved and the step was not
        applied.
        """

    def commit_with_decision(
        self, task_id: str, epoch: int, commit: Commit, decision: Decision, events: Sequence[AnyEvent]
    ) -> int | None:
        """Commit, and record the decision unless an item waits, in one transaction. Return the new epoch.

        Return None if the decision was not recorded. The step may have been applied nevertheless.
        """

    def reset_logs(self, task_id: str, epoch: int, events: Sequence[AnyEvent]) -> bool:
        """Start a new generation of the logs with these events. Return False, and change nothing, if the fence moved.

        Nothing happens if the store does not have the task. The new generation sorts after the present one. The fence
        of an idle or waiting task moves, to the server's time in milliseconds at least.
        """

    def end_epoch(self, task_id: str) -> int | None:
        """Return the fence of the decision to end, or None if the store has no end of this task. Costs O(1)."""

    def expire(self, task_id: str, seconds: int, generation: str) -> bool:
        """Remove an ended task after this number of seconds.

        Return False, and change nothing, if the task exists and has not ended in this generation of its logs.
        """

    def erase(self, task_id: str, seconds: int) -> None:
        """Remove the task, whatever its state, and refuse to create it for this number of seconds.

        Meanwhile `load` returns None and `create` returns False. The fence is gone, so every late write is refused.
        """

    def add_items(
        self,
        task_id: str,
        item_ids: Sequence[str],
        interrupt: bool = False,
        epoch: int | None = None,
        block_claim: bool = False,
    ) -> None:
        """Add the ids of items to the inbox. The items themselves are in the workspace.

        With `interrupt`, also request that the workers cancel the task's pending turn or calls now. With an epoch, the
        request is for the work of that epoch only. With `block_claim`, no worker can claim the pending turn from now
        on. A worker that has claimed it continues.
        """

    def count_items(self, task_id: str) -> int:
        """Return the number of items in the inbox."""

    def remove_item(self, task_id: str, item_id: str) -> None:
        """Remove the item from the inbox."""

    def clear_cancellation(self, task_id: str, epoch: int) -> None:
        """Withdraw the request to cancel the pending work of this epoch."""
