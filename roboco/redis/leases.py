"""Leases on Redis: on turns, with the chunks that they emit, on tool calls, and on other attempts at work.

A lease is a key with a time to live that names its owner. The fence, not the lease, decides whether a write counts: a
worker whose lease has expired may still commit, unless the sweeper has restarted the attempt, which moves the fence.

The chunks of all turns of a process are sent to a Redis server in batches. A batch contains the chunks that arrived
while Redis answered the previous batch. So a busy process makes few round trips, and an idle one sends each chunk
immediately.
"""

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from roboco.domain.history.part import ToolOutcome
from roboco.domain.stream.event import AnyEvent, StatusChanged, unnumbered_json
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.lease_renewals import AttemptLease, CallLease, Lease, LeaseStatus, TurnLease
from roboco.ports.leases import NO_TOKENS, CancelRequest, Chunk, EmitCallback, TurnClaim
from roboco.ports.snapshot import TokenUsage
from roboco.redis.keys import Keys
from roboco.redis.scripts import ScriptCall, Scripts
from roboco.redis.task_store import StoredSteps, hash_fields, parse_snapshot

_log = logging.getLogger(__name__)

IDLE_TIMEOUT = 5.0
"""Seconds without a call after which the thread ends."""
MAX_BATCH_CALLS = 500
"""Calls of one batch at most, so that one slow answer does not delay all of them."""


OnAnswer = Callable[[Any], None]


class ChunkBatcher:
    """Calls scripts for many callers, in their order, from one thread, which starts with the first call."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._calls = queue.SimpleQueue[tuple[ScriptCall, OnAnswer]]()
        self._lock = threading.Lock()
        self._running = False

    def send(self, call: ScriptCall, on_answer: OnAnswer) -> None:
        """Add a call to the next batch. The batcher's thread calls `on_answer` with the answer, or with the error.

        Raise RuntimeError if there can be no further thread. The call is not made then.
        """
        with self._lock:  # otherwise the thread may end between the check and the put, and leave the call
            if not self._running:
                threading.Thread(target=self._run, name="roboco-chunk-batcher", daemon=True).start()
                self._running = True
            self._calls.put((call, on_answer))

    def _run(self) -> None:
        while batch := self._next_batch():
            self._run_batch(batch)

    def _next_batch(self) -> list[tuple[ScriptCall, OnAnswer]]:
        """Return the next batch, or an empty list if no call has arrived for a while: then the thread ends."""
        try:
            batch = [self._calls.get(timeout=IDLE_TIMEOUT)]
        except queue.Empty:
            with self._lock:
                if self._calls.empty():
                    self._running = False
                    return []
            return self._next_batch()
        while len(batch) < MAX_BATCH_CALLS and not self._calls.empty():
            batch.append(self._calls.get_nowait())
        return batch

    def _run_batch(self, batch: list[tuple[ScriptCall, OnAnswer]]) -> None:
        answers = self._answers_to([call for call, _ in batch])
        for (_, on_answer), answer in zip(batch, answers, strict=True):
            try:
                on_answer(answer)
            except Exception:
                _log.exception("the callback for the answer to a chunk failed")

    def _answers_to(self, calls: list[ScriptCall]) -> list[Any]:
        try:
            return self._scripts.run_all(calls)
        except Exception as error:  # every caller needs an answer
            return [error] * len(calls)


class RedisLeaseRenewals:
    """Renews leases for `lease` seconds each. The time-outs of the client of `scripts` limit how long a renewal waits.

    `claiming` are the scripts that claim the leases: their client knows the nodes before the first renewal.
    """

    def __init__(self, scripts: Scripts, keys: Keys, lease: float, claiming: Scripts | None = None) -> None:
        self._scripts = scripts
        self._claiming = claiming or scripts
        self._keys = keys
        self._lease_ms = int(lease * 1000)

    def server_of(self, lease: Lease) -> str:
        """Return the name of the cluster's node that has the lease; "" for a single Redis."""
        key = self._call(lease).keys[0]
        return self._scripts.server_of(key) or self._claiming.server_of(key)

    def renew(self, leases: Sequence[Lease]) -> list[LeaseStatus | Exception]:
        """Renew the leases. Return the status or error of each."""
        answers = self._scripts.run_all([self._call(lease) for lease in leases])
        return [answer if isinstance(answer, Exception) else LeaseStatus(answer) for answer in answers]

    def _call(self, lease: Lease) -> ScriptCall:
        return renewal_call(self._keys, lease, self._lease_ms)


def renewal_call(keys: Keys, lease: Lease, lease_ms: int) -> ScriptCall:
    """Return the call of a script that renews the lease and returns its status."""
    match lease:
        case TurnLease(task_id, epoch, token, note):
            return ScriptCall("renew", [keys.state(task_id), keys.lease(task_id)], [epoch, token, lease_ms, note])
        case CallLease(task_id, epoch, call_id, token):
            names = [keys.state(task_id), keys.calls(task_id), keys.lease(task_id, call_id)]
            return ScriptCall("renew_call", names, [epoch, call_id, token, lease_ms])
        case AttemptLease(key):
            return ScriptCall("renew_attempt", [keys.attempt_lease(key)], [lease_ms])
        case _ as unknown:
            assert_never(unknown)


ATTEMPTS_TTL = 86_400
"""Seconds after the last attempt for which Redis keeps a count of attempts."""
_LEASE_IS_HELD = -1


class RedisLeases:
    """Leases on turns, tool calls and other attempts; each lasts `lease` seconds.

    The attempts of a key are a set with an entry for each one that has not ended, and the lease of the running one.
    """

    def __init__(self, scripts: Scripts, keys: Keys, lease: float, steps: StoredSteps) -> None:
        self._scripts = scripts
        self._keys = keys
        self._steps = steps
        self._lease_ms = int(lease * 1000)
        self._batchers: dict[str, ChunkBatcher] = {}
        """A batcher for each server, so that one that hangs does not delay the chunks of others."""

    def claim_turn(self, assignment: TurnAssignment, token: str, tail: int) -> TurnClaim | None:
        """Claim the turn. Return None if the fence moved, the position is taken, or this attempt was claimed before.

        Return None also if the end of the turn was requested before the claim.
        """
        task_id = assignment.task_id
        names = [self._keys.state(task_id), self._keys.tail(task_id), self._keys.lease(task_id)]
        arguments = [assignment.epoch, assignment.seq, assignment.attempt, token, self._lease_ms, tail]
        answer = self._scripts.run("claim", names, *arguments)
        if answer is None:
            return None
        state, lines = answer
        fields = hash_fields(state)
        held = self._steps.of(task_id, fields, lines)
        return TurnClaim(assignment, token, parse_snapshot(fields, held, (), self._lease_ms, {}))

    def emit(self, claim: TurnClaim, chunk: Chunk, on_ack: EmitCallback) -> None:
        """Number, log and publish the chunk, once, and renew the lease, if this claim holds it."""
        task_id, used = claim.assignment.task_id, chunk.used
        names = [self._keys.state(task_id), self._keys.content(task_id), self._keys.lease(task_id)]
        arguments = [claim.assignment.epoch, claim.token, chunk.number, self._lease_ms, used.tokens_in, used.tokens_out]
        arguments = [*arguments, unnumbered_json(chunk.message)]
        self._batcher_for(task_id).send(
            ScriptCall("emit", names, arguments),
            lambda answer: on_ack(answer if isinstance(answer, Exception) else LeaseStatus(answer)),
        )

    def _batcher_for(self, task_id: str) -> ChunkBatcher:
        server = self._scripts.server_of(self._keys.state(task_id))
        return self._batchers.get(server) or self._batchers.setdefault(server, ChunkBatcher(self._scripts))

    def renew(self, lease: Lease) -> LeaseStatus:
        """Renew the lease, if its owner still has it. Return its status."""
        call = renewal_call(self._keys, lease, self._lease_ms)
        return LeaseStatus(self._scripts.run(call.name, call.keys, *call.arguments))

    def cancel_request(self, claim: TurnClaim) -> CancelRequest | None:
        """Return the request to end the turn, or None."""
        answer = self._scripts.run(
            "cancel_request", [self._keys.state(claim.assignment.task_id)], claim.assignment.epoch
        )
        return None if answer is None else CancelRequest(float(answer[0]), int(answer[1]))

    def defer_turn(
        self,
        claim: TurnClaim,
        seconds: float,
        event: StatusChanged,
        refused: bool,
        used: TokenUsage = NO_TOKENS,
    ) -> bool:
        """Defer the turn for these seconds. Return False if this claim does not hold the lease."""
        task_id = claim.assignment.task_id
        names = [self._keys.state(task_id), self._keys.events(task_id), self._keys.lease(task_id)]
        delay_ms = max(0, int(seconds * 1000))
        arguments = [
            claim.assignment.epoch,
            claim.token,
            delay_ms,
            int(refused),
            event.reason,
            unnumbered_json(event),
            used.tokens_in,
            used.tokens_out,
        ]
        return bool(self._scripts.run("defer", names, *arguments))

    def release_turn(self, claim: TurnClaim) -> bool:
        """Release the turn. Return False if this claim does not hold the lease, or if the attempt has emitted text."""
        task_id = claim.assignment.task_id
        names = [self._keys.state(task_id), self._keys.lease(task_id)]
        return bool(self._scripts.run("release", names, claim.assignment.epoch, claim.token))

    def restart_turn(
        self, task_id: str, epoch: int, event: AnyEvent, token: str = "", handed_over: bool = False
    ) -> int | None:
        """Void the attempt. Return the new epoch, or None if the fence moved or another worker's lease is live."""
        names = [self._keys.state(task_id), self._keys.events(task_id), self._keys.lease(task_id)]
        arguments = [epoch, uuid.uuid4().hex, token, unnumbered_json(event), int(handed_over)]
        return self._scripts.run("restart", names, *arguments) or None

    def count_redelivery(self, task_id: str, epoch: int, dispatched: bool) -> int:
        """Count that the pending decision was found unclaimed. Return the count, or 0 if the fence moved.

        With `dispatched`, also record this moment as its last dispatch.
        """
        arguments = [epoch, uuid.uuid4().hex, int(dispatched)]
        return int(self._scripts.run("count_redelivery", [self._keys.state(task_id)], *arguments))

    def claim_call(self, assignment: ToolAssignment, token: str) -> bool:
        """Claim the call. Return True if this worker holds it now."""
        arguments = [assignment.epoch, assignment.call_id, assignment.attempt, token, self._lease_ms]
        return bool(self._scripts.run("claim_call", self._key_names(assignment), *arguments))

    def record_outcome(
        self, assignment: ToolAssignment, token: str | None, outcome: ToolOutcome, event: AnyEvent
    ) -> int | None:
        """Store the outcome, once. Return the number of outcomes of the step, or None if the call is not held."""
        names = [*self._key_names(assignment), self._keys.events(assignment.task_id)]
        arguments = [assignment.epoch, assignment.call_id, assignment.attempt, token or ""]
        return (
            self._scripts.run("record_outcome", names, *arguments, outcome.model_dump_json(), unnumbered_json(event))
            or None
        )

    def release_call(self, assignment: ToolAssignment, token: str, event: StatusChanged | None = None) -> bool:
        """Release the lease, so that this attempt may be claimed again. Return False if it is not held."""
        names = [*self._key_names(assignment), self._keys.events(assignment.task_id)]
        arguments = [assignment.epoch, assignment.call_id, assignment.attempt, token]
        arguments += ["", ""] if event is None else [event.reason, unnumbered_json(event)]
        return bool(self._scripts.run("release_call", names, *arguments))

    def end_wait(self, assignment: ToolAssignment, others: str) -> bool:
        """End the wait of a call that was released with a reason. Return False if it does not wait."""
        arguments = [assignment.epoch, assignment.call_id, assignment.attempt, others, uuid.uuid4().hex]
        return bool(self._scripts.run("end_call_wait", self._key_names(assignment), *arguments))

    def restart_call(self, assignment: ToolAssignment, worker_lost: bool = False) -> int | None:
        """Void an attempt whose lease has expired, or whose worker is gone. Return the next attempt, or None."""
        arguments = [assignment.epoch, assignment.call_id, assignment.attempt, uuid.uuid4().hex, int(worker_lost)]
        return self._scripts.run("restart_call", self._key_names(assignment), *arguments) or None

    def start_attempt(self, key: str) -> int | None:
        """Start an attempt. Return the number of earlier ones that have not ended, or None if another one is live."""
        earlier = self._start(key, str(self._lease_ms))
        return None if earlier == _LEASE_IS_HELD else earlier

    def count_attempt(self, key: str) -> int:
        """Start an attempt without a lease. Return the number of earlier attempts that have not ended."""
        return self._start(key, "")

    def finish_attempts(self, *keys: str) -> None:
        """Release the leases and reset the counts, in one command: the work has finished."""
        self._scripts.run("attempt_finish", [name for key in keys for name in self._attempt_keys(key)])

    def _start(self, key: str, lease_ms: str) -> int:
        return int(
            self._scripts.run("attempt_start", self._attempt_keys(key), uuid.uuid4().hex, lease_ms, ATTEMPTS_TTL)
        )

    def _attempt_keys(self, key: str) -> list[str]:
        return [self._keys.attempts(key), self._keys.attempt_lease(key)]

    def _key_names(self, order: ToolAssignment) -> list[str]:
        keys = self._keys
        return [keys.state(order.task_id), keys.calls(order.task_id), keys.lease(order.task_id, order.call_id)]
