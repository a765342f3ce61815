"""The board on Redis: the state of tasks."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, answering
from roboco.domain.canonical_json import canonical
from roboco.domain.history.state import TaskState
from roboco.domain.history.step import TaskStep, read_step
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent, body
from roboco.ports import CallState, Choice, Commit, Declined, Phase, Snapshot, Used

KEPT_CHUNKS = 10_000
"""How many chunks a content log keeps when a step is committed; older text stands in the history."""
KEPT_STEPS = 512
"""How many of the newest steps stand in Redis."""


class RedisBoard:
    """The state of tasks, one hash each."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def load(self, task_id: str, tail: int) -> Snapshot | None:
        """The task with at most `tail` of its newest steps, at one moment; None if it is not known."""
        keys = self._keys
        names = [keys.state(task_id), keys.tail(task_id), keys.inbox(task_id)]
        answer = self._scripts.run("load", [*names, keys.lease(task_id), keys.calls(task_id)], tail)
        if answer is None:
            return None
        state, steps, items, lease, calls, (seconds, micros) = answer
        found = _calls(pairs(calls), pairs(state)["epoch"])
        task = snapshot(pairs(state), steps, sorted(items), lease, self._leased(task_id, found))
        now, fields = int(seconds) + int(micros) / 1e6, pairs(state)
        return replace(task, cut_age=_cut_age(fields, now), due_in=_due_in(fields, now))

    def create(
        self, task_id: str, steps: Sequence[TaskStep], state: TaskState, events: Sequence[AnyEvent], above: int = 0
    ) -> bool:
        """Set the task up, idle, with its first and newest steps; False if it is known already.

        The fence starts at Redis' time in milliseconds, so that no epoch comes twice when Redis was emptied.
        """
        keys = self._keys
        names = [keys.state(task_id), keys.tail(task_id), keys.events(task_id), keys.content(task_id)]
        names += [keys.inbox(task_id)]
        newest = [step.line() for step in steps[-KEPT_STEPS:]]
        status = TaskStatus.QUEUED if state.steps == 1 else TaskStatus.RUNNING
        fixed = [above, state.steps, _folded(state)]
        answer = self._scripts.run(
            "create", names, *fixed, steps[0].line(), status, len(newest), *newest, *map(body, events)
        )
        return bool(answer)

    def choose(self, task_id: str, epoch: int, choice: Choice, events: Sequence[AnyEvent]) -> int | None:
        """Write the choice down and move the fence: the new epoch, or None if the fence had moved or it is void."""
        keys = self._keys
        names = [keys.state(task_id), keys.events(task_id), keys.lease(task_id), keys.calls(task_id)]
        names += [keys.inbox(task_id)]
        seen = [""] if choice.seen is None else [len(choice.seen), *choice.seen]
        conditions = [epoch, choice.run or "", *seen]
        answer = self._scripts.run("record_choice", names, *conditions, *_written(choice), *map(body, events))
        return answer or None

    def commit(self, task_id: str, epoch: int, commit: Commit) -> bool:
        """Take over a stored step; True also if that was done before, False if the fence had moved."""
        return bool(self._commit(task_id, epoch, commit))

    def commit_and_choose(
        self, task_id: str, epoch: int, commit: Commit, choice: Choice, events: Sequence[AnyEvent]
    ) -> int | None:
        """`commit`, and `choose` unless an item waits: the new epoch; None if the choice was not written down."""
        chosen = self._commit(task_id, epoch, commit, *_written(choice), *map(body, events))
        return chosen if chosen > 1 else None

    def _commit(self, task_id: str, epoch: int, commit: Commit, *then: Any) -> int:
        keys = self._keys
        names = [keys.state(task_id), keys.tail(task_id), keys.events(task_id), keys.lease(task_id)]
        names += [keys.calls(task_id), keys.content(task_id), keys.inbox(task_id)]
        written = [epoch, commit.step.seq, commit.step.line(), _folded(commit.state)]
        kept = [KEPT_STEPS, KEPT_CHUNKS]
        told = list(map(body, commit.events))
        return int(self._scripts.run("commit", names, *written, *kept, len(told), *told, *then))

    def begin_again(self, task_id: str, epoch: int, events: Sequence[AnyEvent]) -> bool:
        """Begin a new generation of the logs with these events; False if the fence had moved."""
        keys = self._keys
        names = [keys.state(task_id), keys.events(task_id), keys.content(task_id)]
        return bool(self._scripts.run("reset_logs", names, epoch, uuid.uuid4().hex, *map(body, events)))

    def leave(self, task_id: str, seconds: int, generation: str) -> bool:
        """Remove an ended task after so many seconds; False if it has not ended in this generation."""
        return bool(self._scripts.run("expire", list(self._keys.of_task(task_id)), seconds, generation))

    def _leased(self, task_id: str, calls: dict[str, CallState]) -> dict[str, CallState]:
        open_calls = [call_id for call_id, call in calls.items() if call.claimed and call.outcome is None]
        if not open_calls:
            return calls
        with answering(), self._scripts.client.pipeline(transaction=False) as pipe:
            for call_id in open_calls:
                pipe.pttl(self._keys.lease(task_id, call_id))
            left = dict(zip(open_calls, pipe.execute(), strict=True))
        return {
            call_id: replace(call, lease_left=max(0, left.get(call_id, 0)) / 1000) for call_id, call in calls.items()
        }


def _folded(state: TaskState) -> str:
    """The state without what it has in common with an empty one: every waiting task keeps it."""
    return state.model_dump_json(exclude_defaults=True)


def _written(choice: Choice) -> list[str]:
    """A choice as scripts write it down, after a token by which the call is known if it is sent twice."""
    routing = canonical(dict(choice.routing or {}))
    return [uuid.uuid4().hex, choice.phase, choice.status, choice.reason, choice.agent, routing]


def snapshot(
    fields: Mapping[str, str],
    steps: Sequence[str],
    item_ids: Sequence[str],
    lease_ms: int,
    calls: Mapping[str, CallState],
) -> Snapshot:
    """Return the snapshot that the fields of a task's hash and its other keys make."""
    refused = fields.get("refused_epoch") == fields["epoch"]
    return Snapshot(
        epoch=int(fields["epoch"]),
        seq=int(fields["seq"]),
        phase=Phase(fields["phase"]),
        status=TaskStatus(fields["status"]),
        reason=fields["reason"],
        agent=fields["agent"],
        attempt=int(fields["attempt"]),
        claimed=fields["owner"] != "",
        lease_left=max(0, lease_ms) / 1000,
        rings=int(fields["redeliveries"]),
        handed_at=float(fields.get("dispatched_at", 0)),
        cut_age=None,
        due_in=None,
        refusals=int(fields["refusals"]) if refused else 0,
        refused_for=max(0.0, float(fields.get("refused_for", 0))) if refused else 0.0,
        declined=_declined(fields.get("declined", ""), fields["epoch"]),
        generation=fields["generation"],
        events=int(fields["events"]),
        chunks=int(fields["chunks"]),
        emitted=int(fields["emitted"]),
        used=_used(fields),
        routing=json.loads(fields["routing"]),
        state=TaskState.model_validate_json(fields["history_state"]),
        first=_step(fields["first_step"]),
        tail=tuple(map(_step, steps)),
        item_ids=tuple(item_ids),
        calls=calls,
    )


def _step(line: str) -> TaskStep:
    """The step of a line; that of a short one is kept, since the next turn reads it again."""
    return _read(line) if len(line) <= _SHORT_LINE else read_step(line)


_read = lru_cache(maxsize=2048)(read_step)
_SHORT_LINE = 4096
"""Characters; so that what is kept is a few dozen megabytes at most."""


def _used(fields: Mapping[str, str]) -> Used:
    """Return the tokens that unfinished attempts at the next step have used."""
    used = Used()
    if fields.get("unfinished_seq") == fields["seq"]:
        used = Used(int(fields["unfinished_tokens_in"]), int(fields["unfinished_tokens_out"]))
    if fields["emitted"] != "0":
        used = used.plus(Used(int(fields.get("attempt_tokens_in", 0)), int(fields.get("attempt_tokens_out", 0))))
    return used


def _cut_age(fields: Mapping[str, str], now: float) -> float | None:
    """Return the seconds since the end of the pending work was requested, or None."""
    requested = fields.get("cancel_epoch") == fields["epoch"]
    return max(0.0, now - float(fields["cancel_requested_at"])) if requested else None


def _due_in(fields: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until a deferred turn may be claimed again, or None if the turn is not deferred."""
    deferred = fields.get("deferred_epoch") == fields["epoch"]
    return max(0.0, float(fields["deferred_until"]) - now) if deferred else None


def pairs(answer: Any) -> dict[str, str]:
    """The fields of a hash as a script returns them: names and values in turn."""
    flat = list(answer)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _declined(stored: str, epoch: str) -> Declined:
    """Return who has declined the work of this epoch."""
    of_epoch, *rest = stored.split("\n")
    return Declined(int(rest[0]), tuple(rest[1:])) if of_epoch == epoch and rest else Declined()


def _calls(fields: dict[str, str], epoch: str) -> dict[str, CallState]:
    ids = {name.partition(":")[0] for name in fields if ":" in name}
    return {
        call_id: CallState(
            attempt=int(fields.get(f"{call_id}:attempt", 1)),
            claimed=fields.get(f"{call_id}:owner", "") != "",
            outcome=Outcome.model_validate_json(stored) if (stored := fields.get(f"{call_id}:outcome")) else None,
            declined=_declined(fields.get(f"{call_id}:declined", ""), epoch),
        )
        for call_id in ids
    }
