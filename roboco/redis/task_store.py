"""The task store on Redis: one hash for each task, and the newest steps beside it.

Fencing: every write carries the epoch that its worker has read, and moves the epoch. A write with an old epoch is
refused, so a worker that was paused and continues later cannot change the task. The workspace is the source of truth:
Redis can be emptied, and the coordinator rebuilds the state from the history.

Two phases: a worker first appends the step to the history in the workspace, which decides who wins the position, and
then commits it here. If the worker dies in between, the coordinator commits the stored step.

Large steps: Redis holds their position and digest; the history in the workspace holds them.

    first step of more than 16 KB ─► {"digest", "seq"}                       the newest steps: 64 KB together
    last step of more than 64 KB  ─► none of the newest steps is in Redis    the state names its digest

So hostile steps cannot fill Redis: the memory of a task does not depend on the size of its steps.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from redis.cluster import RedisCluster

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import ToolOutcome
from roboco.domain.history.step import TaskStep, parse_step
from roboco.domain.history.task_state import TaskState
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import MAX_LOGGED_BYTES, AnyEvent, unnumbered_json
from roboco.errors import CorruptHistory
from roboco.ports.snapshot import (
    COORDINATOR_TAIL_LENGTH,
    CallState,
    Decision,
    HeldSteps,
    Logs,
    Phase,
    Refusals,
    Snapshot,
    TaskPosition,
    TokenUsage,
    TurnAttempt,
    TurnProgress,
)
from roboco.ports.task_store import Commit
from roboco.redis.cluster import LazyCluster
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors
from roboco.redis.server_error import write_refusal

_REFERENCE: Final = '{"digest":'
"""The beginning of a reference. A step's line begins with its agent."""
_MAX_CACHED_LINE_CHARS: Final = 4096
"""Characters of a line whose step is cached, so that the cache takes a few dozen megabytes at most."""
_MAX_CACHED_LARGE_STEPS: Final = 16

ReadLargeSteps = Callable[[str, int], Iterable[TaskStep]]
"""Returns the steps of a task in the workspace from a position on."""


def no_steps(task_id: str, seq: int) -> Iterable[TaskStep]:
    """Return no steps, for a process that does not read the workspace."""
    return ()


class StoredSteps:
    """Reads the steps that Redis refers to. A few of them are cached: a digest names one step for ever."""

    def __init__(self, read: ReadLargeSteps) -> None:
        self._read = read
        self._at = lru_cache(_MAX_CACHED_LARGE_STEPS)(self._read_at)

    def of(self, task_id: str, fields: Mapping[str, str], lines: Sequence[str]) -> HeldSteps:
        """Return the first and the newest steps of the task with these fields of its hash and lines of its tail."""
        first, seq = fields["first_step"], int(fields["seq"])
        if first.startswith(_REFERENCE):
            first_step = self._at(task_id, 0, json.loads(first)["digest"])
        else:
            first_step = parse_line(first)
        if lines:
            return HeldSteps(first_step, tuple(map(parse_line, lines)))
        last_digest = json.loads(fields["history_state"])["last_digest"]
        return HeldSteps(first_step, (self._at(task_id, seq - 1, last_digest),))

    def _read_at(self, task_id: str, seq: int, digest: str) -> TaskStep:
        step = next(iter(self._read(task_id, seq)), None)
        if step is None or step.digest != digest:
            raise CorruptHistory(
                f"step {seq} of task {task_id!r} is too large for Redis, and the workspace lacks it: restore its folder"
            )
        return step


def first_line(step: TaskStep) -> str:
    """Return the line of the first step for Redis, or a reference if it is too large."""
    line = step.line()
    return line if len(line.encode()) <= MAX_LOGGED_BYTES else canonical_json({"digest": step.digest, "seq": step.seq})


def parse_line(line: str) -> TaskStep:
    """Return the step of a line. Short ones are cached, because the next turn reads them again."""
    return _cached_step(line) if len(line) <= _MAX_CACHED_LINE_CHARS else parse_step(line)


_cached_step = lru_cache(maxsize=2048)(parse_step)


MAX_TAIL_STEPS = COORDINATOR_TAIL_LENGTH
"""Newest steps of a task that Redis keeps."""
MAX_TAIL_BYTES = 64 * 1024
"""The same in bytes of their JSON. A last step with more is not kept: the workspace has it."""

MAX_SENT_ITEMS = 500
"""Items that are sent at a time."""
UNKNOWN_TASK_TTL = 86_400
"""Seconds after which the inbox of a task that Redis does not have expires."""

_NOT_APPLIED, _APPLIED = 0, 1
"""Answers of `commit.lua` and `create.lua`. Any other answer is the new epoch of the decision that it recorded."""


class RedisTaskStore:
    """The state of tasks, one hash each, and the ids of their waiting items, one set each."""

    def __init__(self, scripts: Scripts, keys: Keys, steps: StoredSteps) -> None:
        self._scripts = scripts
        self._keys = keys
        self._steps = steps

    def load(self, task_id: str, tail: int) -> Snapshot | None:
        """Return the task with at most `tail` of its newest steps, at one moment, or None if Redis does not have it."""
        keys = self._keys
        names = [keys.state(task_id), keys.tail(task_id), keys.inbox(task_id)]
        answer = self._scripts.run("load", [*names, keys.lease(task_id), keys.calls(task_id)], tail)
        if answer is None:
            return None
        state, steps, items, lease, calls, (seconds, micros) = answer
        now, fields = int(seconds) + int(micros) / 1e6, hash_fields(state)
        held = self._steps.of(task_id, fields, steps)
        found = _call_states(hash_fields(calls), fields["epoch"])
        task = parse_snapshot(fields, held, sorted(items), lease, self._with_leases(task_id, found))
        attempt = replace(
            task.attempt,
            cancel_requested_for=_cancel_requested_for(fields, now),
            deferred_for=_deferred_for(fields, now),
        )
        return replace(task, attempt=attempt)

    def memory_share(self, task_id: str) -> float:
        """Return the part of its memory that the server of the task uses; 0 if it has no `maxmemory`.

        Cost: one INFO.
        """
        client: Any = self._scripts.client
        key = self._keys.state(task_id)
        node = {"target_nodes": client.get_node_from_key(key)} if isinstance(client, LazyCluster) else {}
        with translating_errors():
            facts = client.info("memory", **node)
        most = int(facts.get("maxmemory", 0))
        return int(facts["used_memory"]) / most if most else 0.0

    def create(
        self,
        task_id: str,
        steps: Sequence[TaskStep],
        state: TaskState,
        events: Sequence[AnyEvent],
        above_epoch: int = 0,
    ) -> bool:
        """Create the task, idle, with its first and newest steps. Return False if it exists.

        The fence starts at Redis' time in milliseconds, so that no epoch is used twice, even if Redis was emptied.
        """
        return self._create(task_id, steps, state, events, above_epoch) != _NOT_APPLIED

    def create_with_decision(
        self,
        task_id: str,
        steps: Sequence[TaskStep],
        state: TaskState,
        events: Sequence[AnyEvent],
        decision: Decision,
        decision_events: Sequence[AnyEvent],
    ) -> int | None:
        """Create the task and, unless an inbox item waits, record the decision, atomically.

        Return the new epoch, or None if the decision was not recorded; the task may be created all the same.
        """
        choice = [*_decision_args(decision), *map(unnumbered_json, decision_events)]
        answer = self._create(task_id, steps, state, events, 0, *choice)
        return None if answer in (_NOT_APPLIED, _APPLIED) else answer

    def _create(
        self,
        task_id: str,
        steps: Sequence[TaskStep],
        state: TaskState,
        events: Sequence[AnyEvent],
        above_epoch: int,
        *decision: str,
    ) -> int:
        keys = self._keys
        names = [keys.state(task_id), keys.tail(task_id), keys.events(task_id), keys.content(task_id)]
        names += [keys.inbox(task_id)]
        newest, last = _newest_lines(steps), steps[-1].seq
        status = TaskStatus.QUEUED if state.steps == state.imported + 1 else TaskStatus.RUNNING
        fixed = [above_epoch, state.steps, _state_json(state)]
        counts = [len(newest), len(events)]
        bodies = [unnumbered_json(event, last) for event in events]
        return int(
            self._scripts.run(
                "create", names, *fixed, first_line(steps[0]), status, *counts, *newest, *bodies, *decision
            )
        )

    def record_decision(self, task_id: str, epoch: int, decision: Decision, events: Sequence[AnyEvent]) -> int | None:
        """Record the decision and move the fence. Return the new epoch, or None if the fence moved or it is void."""
        keys = self._keys
        names = [keys.state(task_id), keys.events(task_id), keys.lease(task_id), keys.calls(task_id)]
        names += [keys.inbox(task_id)]
        seen = [""] if decision.seen_item_ids is None else [len(decision.seen_item_ids), *decision.seen_item_ids]
        conditions = [epoch, decision.instance_id or "", *seen]
        answer = self._scripts.run(
            "record_decision", names, *conditions, *_decision_args(decision), *map(unnumbered_json, events)
        )
        return answer or None

    def commit(self, task_id: str, epoch: int, commit: Commit) -> bool:
        """Apply a stored step. Return True also if it was applied before, and False if the fence had moved."""
        return self._commit(task_id, epoch, commit) != _NOT_APPLIED

    def commit_with_decision(
        self, task_id: str, epoch: int, commit: Commit, decision: Decision, events: Sequence[AnyEvent]
    ) -> int | None:
        """Apply a stored step and, unless an inbox item waits, record the decision, atomically.

        Return the new epoch, or None if the decision was not recorded; the step may be applied all the same.
        """
        answer = self._commit(task_id, epoch, commit, *_decision_args(decision), *map(unnumbered_json, events))
        return None if answer in (_NOT_APPLIED, _APPLIED) else answer

    def _commit(self, task_id: str, epoch: int, commit: Commit, *decision: Any) -> int:
        keys = self._keys
        names = [keys.state(task_id), keys.tail(task_id), keys.events(task_id), keys.lease(task_id)]
        names += [keys.calls(task_id), keys.content(task_id), keys.inbox(task_id)]
        step = [epoch, commit.step.seq, commit.step.line(), _state_json(commit.state)]
        limits = [MAX_TAIL_STEPS, MAX_TAIL_BYTES, "" if commit.kept_chunks is None else commit.kept_chunks]
        events = [unnumbered_json(event, commit.step.seq) for event in commit.events]
        return int(self._scripts.run("commit", names, *step, *limits, len(events), *events, *decision))

    def reset_logs(self, task_id: str, epoch: int, events: Sequence[AnyEvent]) -> bool:
        """Begin a new generation of the logs with these events. Return False if the fence had moved."""
        keys = self._keys
        names = [keys.state(task_id), keys.events(task_id), keys.content(task_id)]
        return bool(self._scripts.run("reset_logs", names, epoch, uuid.uuid4().hex, *map(unnumbered_json, events)))

    def erase(self, task_id: str, seconds: int) -> None:
        """Remove the keys of the task, and keep a state without an epoch for these seconds."""
        self._scripts.run("erase", [*self._keys.task_keys(task_id), self._keys.lease(task_id)], seconds)

    def end_epoch(self, task_id: str) -> int | None:
        """Return the fence of the decision to end, or None if Redis has no end of this task."""
        epoch = self._scripts.run("end_epoch", [self._keys.state(task_id)])
        return None if epoch is None else int(epoch)

    def expire(self, task_id: str, seconds: int, generation: str) -> bool:
        """Let an ended task expire after these seconds. Return False if it has not ended in this generation."""
        return bool(self._scripts.run("expire", list(self._keys.task_keys(task_id)), seconds, generation))

    def add_items(
        self,
        task_id: str,
        item_ids: Sequence[str],
        interrupt: bool = False,
        epoch: int | None = None,
        block_claim: bool = False,
    ) -> None:
        """Add the items. With `interrupt` or `block_claim`, also request the end of the pending work.

        With `epoch`, request the end of the work of this epoch alone.
        """
        names = [self._keys.state(task_id), self._keys.inbox(task_id)]
        request = "1" if interrupt else "hold" if block_claim else "0"
        fixed = [request, self._keys.signals, task_id, "" if epoch is None else epoch, UNKNOWN_TASK_TTL]
        for start in range(0, len(item_ids) or interrupt or block_claim, MAX_SENT_ITEMS):
            self._scripts.run("inbox_add", names, *fixed, *item_ids[start : start + MAX_SENT_ITEMS])

    def count_items(self, task_id: str) -> int:
        """Return the number of items in the inbox."""
        with translating_errors():
            waiting: Any = self._scripts.client.scard(self._keys.inbox(task_id))
            return int(waiting)

    def remove_item(self, task_id: str, item_id: str) -> None:
        """Remove the item from the inbox."""
        with translating_errors():
            self._scripts.client.srem(self._keys.inbox(task_id), item_id)

    def clear_cancellation(self, task_id: str, epoch: int) -> None:
        """Withdraw the request to end the pending work of this epoch."""
        self._scripts.run("clear_cancellation", [self._keys.state(task_id)], epoch)

    def fault(self, task_id: str) -> str:
        """Return why Redis takes no writes of the task now, with the remedy, or ""."""
        with translating_errors():
            return write_refusal(self._scripts.client, self._keys.lease(task_id, "probe"))

    def eviction(self) -> str:
        """Return that Redis has evicted keys, with the remedy, or ""."""
        client: Any = self._scripts.client
        with translating_errors():
            if isinstance(client, LazyCluster):
                nodes = list(client.info(target_nodes=RedisCluster.PRIMARIES).values())
            else:
                nodes = [client.info()]
        for info in nodes:
            policy, evicted = str(info.get("maxmemory_policy", "noeviction")), int(info.get("evicted_keys", 0))
            if policy != "noeviction" and evicted:
                return f"redis has evicted {evicted} keys (maxmemory-policy {policy}): set maxmemory-policy noeviction"
        return ""

    def _with_leases(self, task_id: str, calls: dict[str, CallState]) -> dict[str, CallState]:
        open_calls = [call_id for call_id, call in calls.items() if call.claimed and call.outcome is None]
        if not open_calls:
            return calls
        with translating_errors(), self._scripts.client.pipeline(transaction=False) as pipe:
            for call_id in open_calls:
                pipe.pttl(self._keys.lease(task_id, call_id))
            left = dict(zip(open_calls, pipe.execute(), strict=True))
        return {
            call_id: replace(call, lease_left=max(0, left.get(call_id, 0)) / 1000) for call_id, call in calls.items()
        }


def _newest_lines(steps: Sequence[TaskStep]) -> list[str]:
    """Return the JSON of the newest steps within the limits of the tail, or [] if the last one exceeds them."""
    lines: list[str] = []
    left = MAX_TAIL_BYTES
    for step in reversed(steps[-MAX_TAIL_STEPS:]):
        line = step.line()
        left -= len(line.encode())
        if left < 0:
            break
        lines.append(line)
    return lines[::-1]


def _state_json(state: TaskState) -> str:
    """Return the state as JSON without default values: Redis keeps it for every waiting task."""
    return state.model_dump_json(exclude_defaults=True)


def _decision_args(choice: Decision) -> list[str]:
    """Return a decision as the arguments of `record_decision` in Lua.

    The first one is a token of this call, so that a call that is sent twice takes effect once.
    """
    routing = canonical_json(dict(choice.routing or {}))
    return [uuid.uuid4().hex, choice.phase, choice.status, choice.reason, choice.agent, routing]


def parse_snapshot(
    fields: Mapping[str, str],
    steps: HeldSteps,
    item_ids: Sequence[str],
    lease_ms: int,
    calls: Mapping[str, CallState],
) -> Snapshot:
    """Return the snapshot that the fields of a task's hash and its other keys make."""
    refused = fields.get("refused_epoch") == fields["epoch"]
    return Snapshot(
        position=TaskPosition(
            epoch=int(fields["epoch"]),
            seq=int(fields["seq"]),
            phase=Phase(fields["phase"]),
            status=TaskStatus(fields["status"]),
            reason=fields["reason"],
            agent=fields["agent"],
            routing=json.loads(fields["routing"]),
            dispatched_at=float(fields.get("dispatched_at", 0)),
            redeliveries=int(fields["redeliveries"]),
        ),
        attempt=TurnAttempt(
            number=int(fields["attempt"]),
            handovers=int(fields.get("handovers", 0)),
            claimed=fields["owner"] != "",
            lease_left=max(0, lease_ms) / 1000,
            unfinished_usage=_unfinished_usage(fields),
            progress=_progress(fields),
        ),
        logs=Logs(
            generation=fields["generation"],
            events=int(fields["events"]),
            first_event=int(fields.get("first_event", 1)),
            archived_event=int(fields.get("archived", 0)),
            event_bytes=int(fields.get("event_bytes", 0)),
            chunks=int(fields["chunks"]),
            attempt_chunks=int(fields["emitted"]),
        ),
        refusals=Refusals(
            count=int(fields["refusals"]) if refused else 0,
            seconds=max(0.0, float(fields.get("refused_for", 0))) if refused else 0.0,
        ),
        state=TaskState.model_validate_json(fields["history_state"]),
        steps=steps,
        item_ids=tuple(item_ids),
        calls=calls,
    )


def _progress(fields: Mapping[str, str]) -> TurnProgress | None:
    """Return the progress of the claimed turn, if its worker has recorded it."""
    recorded = fields.get("note_epoch") == fields["epoch"] and fields["owner"] != ""
    return TurnProgress.parse(fields["note"]) if recorded else None


def _unfinished_usage(fields: Mapping[str, str]) -> TokenUsage:
    """Return the tokens that unfinished attempts at the next step have used."""
    used = TokenUsage()
    if fields.get("unfinished_seq") == fields["seq"]:
        used = TokenUsage(int(fields["unfinished_tokens_in"]), int(fields["unfinished_tokens_out"]))
    if fields["emitted"] != "0":
        used = used.plus(TokenUsage(int(fields.get("attempt_tokens_in", 0)), int(fields.get("attempt_tokens_out", 0))))
    return used


def _cancel_requested_for(fields: Mapping[str, str], now: float) -> float | None:
    """Return the seconds since the end of the pending work was requested, or None."""
    requested = fields.get("cancel_epoch") == fields["epoch"]
    return max(0.0, now - float(fields["cancel_requested_at"])) if requested else None


def _deferred_for(fields: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until a deferred turn may be claimed again, or None if the turn is not deferred."""
    deferred = fields.get("deferred_epoch") == fields["epoch"]
    return max(0.0, float(fields["deferred_until"]) - now) if deferred else None


def hash_fields(answer: Any) -> dict[str, str]:
    """Return the fields of a hash, which a script returns as alternating names and values."""
    flat = list(answer)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _call_states(fields: dict[str, str], epoch: str) -> dict[str, CallState]:
    ids = {name.partition(":")[0] for name in fields if ":" in name}
    return {
        call_id: CallState(
            attempt=int(fields.get(f"{call_id}:attempt", 1)),
            claimed=fields.get(f"{call_id}:owner", "") != "",
            outcome=ToolOutcome.model_validate_json(stored) if (stored := fields.get(f"{call_id}:outcome")) else None,
            waits=fields.get(f"{call_id}:wait_epoch") == epoch,
        )
        for call_id in ids
    }
