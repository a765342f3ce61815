"""The task store in memory."""

import json
from collections.abc import Sequence
from functools import lru_cache

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import ToolOutcome
from roboco.domain.history.step import TaskStep, parse_step
from roboco.domain.history.task_state import TaskState
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent
from roboco.ports.clock import Clock
from roboco.ports.snapshot import (
    CallState,
    Decision,
    HeldSteps,
    Logs,
    Phase,
    Refusals,
    Snapshot,
    TaskPosition,
    TurnAttempt,
    TurnProgress,
)
from roboco.ports.task_store import Commit, TaskStore
from tests.support.memory_ports.server import MemoryServer, StoredCall, StoredTask

MAX_TAIL_STEPS = 64
MAX_TAIL_BYTES = 64 * 1024
"""The limits of the tail, which tests lower."""
_read = lru_cache(maxsize=4096)(parse_step)


class MemoryTaskStore(TaskStore):
    """The task store of one client."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def fault(self, task_id: str) -> str:
        return ""

    def eviction(self) -> str:
        return ""

    def load(self, task_id: str, tail: int) -> Snapshot | None:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is not None and task.forget_at is not None and task.forget_at <= now:
                del held.tasks[task_id]
                held.inboxes.pop(task_id, None)
                task = None
            if task is None:
                return None
            return snapshot(task, tail, now, tuple(sorted(held.inboxes.get(task_id, ()))))

    def memory_share(self, task_id: str) -> float:
        return 0.0

    def create(
        self,
        task_id: str,
        steps: Sequence[TaskStep],
        state: TaskState,
        events: Sequence[AnyEvent],
        above_epoch: int = 0,
    ) -> bool:
        now = self._clock.now()
        with self._server as held:
            if task_id in held.tasks or held.erased_until.get(task_id, 0.0) > now:
                return False
            held.inbox_until.pop(task_id, None)
            task = held.tasks[task_id] = StoredTask(
                generation=self._server.generation(),
                epoch=max(round(now * 1000), above_epoch + 1),
                seq=state.steps,
                state=state.model_dump_json(),
                first=steps[0].line(),
                status=TaskStatus.QUEUED if state.steps == state.imported + 1 else TaskStatus.RUNNING,
                tail=self._bounded([step.line() for step in steps]),
                dispatched_at=now,
            )
            for event in events:
                self._server.publish_event(task_id, task, event)
            return True

    def create_with_decision(
        self,
        task_id: str,
        steps: Sequence[TaskStep],
        state: TaskState,
        events: Sequence[AnyEvent],
        decision: Decision,
        decision_events: Sequence[AnyEvent],
    ) -> int | None:
        with self._server as held:
            if not self.create(task_id, steps, state, events) or held.inboxes.get(task_id):
                return None
            return self._record(task_id, held.tasks[task_id], decision, decision_events)

    def record_decision(self, task_id: str, epoch: int, decision: Decision, events: Sequence[AnyEvent]) -> int | None:
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is None or task.epoch != epoch:
                return None
            if decision.seen_item_ids is not None and not held.inboxes.get(task_id, set()) <= decision.seen_item_ids:
                return None
            if decision.instance_id not in (None, str(self._server.instance)):
                return None
            return self._record(task_id, task, decision, events)

    def commit_with_decision(
        self, task_id: str, epoch: int, commit: Commit, decision: Decision, events: Sequence[AnyEvent]
    ) -> int | None:
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is None or (task.epoch, task.seq) != (epoch, commit.step.seq):
                return None
            self.commit(task_id, epoch, commit)
            return None if held.inboxes.get(task_id) else self._record(task_id, task, decision, events)

    def _record(self, task_id: str, task: StoredTask, choice: Decision, events: Sequence[AnyEvent]) -> int:
        task.move_fence(choice.phase, self._clock.now())
        task.status, task.reason, task.agent = choice.status, choice.reason, choice.agent
        task.routing = canonical_json(dict(choice.routing or {}))
        for event in events:
            self._server.publish_event(task_id, task, event)
        return task.epoch

    def commit(self, task_id: str, epoch: int, commit: Commit) -> bool:
        now, step = self._clock.now(), commit.step
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is None:
                return False
            if task.seq > step.seq:
                return True
            if task.epoch != epoch or task.seq != step.seq:
                return False
            task.move_fence(Phase.UNDECIDED, now)
            task.status, task.reason = TaskStatus.RUNNING, ""
            task.seq += 1
            task.state = commit.state.model_dump_json()
            task.tail = self._bounded([*task.tail, step.line()])
            if commit.kept_chunks is not None:
                task.trim_chunks(task.last_chunk + 1 - commit.kept_chunks)
            for event in commit.events:
                self._server.publish_event(task_id, task, event)
            return True

    def _bounded(self, lines: list[str]) -> list[str]:
        """Return the newest lines within the limits of the tail; at least the last one."""
        kept = lines[-(self._server.tail_steps or MAX_TAIL_STEPS) :]
        while len(kept) > 1 and sum(len(line.encode()) for line in kept) > MAX_TAIL_BYTES:
            kept = kept[1:]
        return kept

    def end_epoch(self, task_id: str) -> int | None:
        task = self.load(task_id, 1)
        return task.position.epoch if task is not None and task.position.phase is Phase.END else None

    def reset_logs(self, task_id: str, epoch: int, events: Sequence[AnyEvent]) -> bool:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is None:
                return True
            if task.epoch != epoch:
                return False
            if task.phase in (Phase.UNDECIDED, Phase.WAIT):
                task.epoch = max(round(now * 1000), epoch + 1)
            task.generation = self._server.generation()
            task.events, task.first_event, task.archived_event = [], 1, 0
            task.chunks, task.first_chunk = [], 1
            for event in events:
                self._server.publish_event(task_id, task, event)
            return True

    def expire(self, task_id: str, seconds: int, generation: str) -> bool:
        now = self._clock.now()
        with self._server as held:
            if (task := held.tasks.get(task_id)) is None:
                return True
            if task.phase is not Phase.END or task.generation != generation:
                return False
            task.forget_at = now + seconds
            return True

    def erase(self, task_id: str, seconds: int) -> None:
        until = self._clock.now() + seconds
        with self._server as held:
            held.tasks.pop(task_id, None)
            held.inboxes.pop(task_id, None)
            held.erased_until[task_id] = until

    def add_items(
        self,
        task_id: str,
        item_ids: Sequence[str],
        interrupt: bool = False,
        epoch: int | None = None,
        block_claim: bool = False,
    ) -> None:
        now = self._clock.now()
        with self._server as held:
            if item_ids:
                held.inboxes.setdefault(task_id, set()).update(item_ids)
            task = held.tasks.get(task_id)
            if task is None:
                held.inbox_until[task_id] = now + 86_400
            else:
                held.inbox_until.pop(task_id, None)
            if (
                task is None
                or not (interrupt or block_claim)
                or epoch not in (None, task.epoch)
                or task.phase is Phase.END
            ):
                return
            if block_claim and not interrupt and (task.phase is not Phase.TURN or task.owner):
                return
            if task.cancellation[0] != task.epoch:
                task.cancellation = (task.epoch, now, task.emitted)
            listening = [
                heard for name, epoch, heard in self._server.listeners if (name, epoch) == (task_id, task.epoch)
            ]
        for heard in [] if self._server.deaf else listening:
            heard()

    def count_items(self, task_id: str) -> int:
        with self._server as held:
            return len(held.inboxes.get(task_id, ()))

    def clear_cancellation(self, task_id: str, epoch: int) -> None:
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is not None and task.epoch == task.cancellation[0] == epoch:
                task.cancellation = (0, 0.0, 0)

    def remove_item(self, task_id: str, item_id: str) -> None:
        with self._server as held:
            held.inboxes.get(task_id, set()).discard(item_id)


def snapshot(task: StoredTask, tail: int, now: float, item_ids: tuple[str, ...]) -> Snapshot:
    """Return the snapshot of a stored task."""
    return Snapshot(
        position=TaskPosition(
            epoch=task.epoch,
            seq=task.seq,
            phase=task.phase,
            status=task.status,
            reason=task.reason,
            agent=task.agent,
            routing=json.loads(task.routing),
            dispatched_at=task.dispatched_at,
            redeliveries=task.redeliveries,
        ),
        attempt=TurnAttempt(
            number=task.attempt,
            handovers=task.handovers,
            claimed=task.owner != "",
            lease_left=max(0.0, task.lease_until - now),
            cancel_requested_for=max(0.0, now - task.cancellation[1]) if task.cancellation[0] == task.epoch else None,
            deferred_for=max(0.0, task.deferral[1] - now) if task.deferral[0] == task.epoch else None,
            unfinished_usage=task.used.plus(task.unfinished_usage()),
            progress=TurnProgress.parse(task.note[1]) if task.note[0] == task.epoch and task.owner else None,
        ),
        logs=Logs(
            generation=task.generation,
            events=task.last_event,
            first_event=task.first_event,
            archived_event=task.archived_event,
            event_bytes=sum(len(message.encode()) for message in task.events),
            chunks=task.last_chunk,
            attempt_chunks=task.emitted,
        ),
        refusals=Refusals(
            count=task.refusals[1] if task.refusals[0] == task.epoch else 0,
            seconds=task.refused_for if task.refusals[0] == task.epoch else 0.0,
        ),
        state=TaskState.model_validate_json(task.state),
        steps=HeldSteps(_read(task.first), tuple(_read(line) for line in task.tail[-tail:])),
        item_ids=item_ids,
        calls={call_id: _call(call, now, task.epoch) for call_id, call in task.calls.items()},
    )


def _call(call: StoredCall, now: float, epoch: int) -> CallState:
    return CallState(
        attempt=call.attempt,
        claimed=call.owner != "",
        lease_left=max(0.0, call.lease_until - now) if call.owner and call.outcome is None else 0.0,
        outcome=None if call.outcome is None else ToolOutcome.model_validate_json(call.outcome),
        waits=call.wait_epoch == epoch,
    )
