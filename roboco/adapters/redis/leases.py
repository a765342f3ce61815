"""Leases on Redis: on turns, with the chunks that they emit, and on tool calls.

A lease is a key with a time to live that names its owner. The fence, not the lease, decides whether a write counts: a
worker whose lease has expired may still commit, unless the sweeper has restarted the attempt, which moves the fence.
"""

import uuid

from roboco.adapters.redis.chunk_batcher import Emitter
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts
from roboco.adapters.redis.task_store import pairs, snapshot
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.stream.event import AnyEvent, StatusChanged, body
from roboco.ports import CallOrder, Chunk, Cut, Heard, LeaseStatus, TurnClaim, TurnOrder


class RedisTurns:
    """Leases on turns; each lasts `lease` seconds."""

    def __init__(self, scripts: Scripts, keys: Keys, lease: float) -> None:
        self._scripts = scripts
        self._keys = keys
        self._lease_ms = int(lease * 1000)
        self._emitter = Emitter(scripts, "emit")

    def claim(self, order: TurnOrder, token: str, tail: int) -> TurnClaim | None:
        """Claim the turn. Return None if the fence moved, the position is taken, or this attempt was claimed before.

        Return None also if the end of the turn was requested before the claim.
        """
        task_id = order.task_id
        names = [self._keys.state(task_id), self._keys.tail(task_id), self._keys.lease(task_id)]
        arguments = [order.epoch, order.seq, order.attempt, token, self._lease_ms, tail]
        answer = self._scripts.run("claim", names, *arguments)
        if answer is None:
            return None
        state, steps = answer
        return TurnClaim(order, token, snapshot(pairs(state), steps, (), self._lease_ms, {}))

    def emit(self, claim: TurnClaim, chunk: Chunk, heard: Heard) -> None:
        """Number, log and publish the chunk, once, and renew the lease, if this claim holds it."""
        task_id, used = claim.order.task_id, chunk.used
        names = [self._keys.state(task_id), self._keys.content(task_id), self._keys.lease(task_id)]
        arguments = [claim.order.epoch, claim.token, chunk.number, self._lease_ms, used.tokens_in, used.tokens_out]
        arguments = [*arguments, body(chunk.message)]
        self._emitter.send(
            names, arguments, lambda answer: heard(answer if isinstance(answer, Exception) else LeaseStatus(answer))
        )

    def renew(self, claim: TurnClaim) -> LeaseStatus:
        """Renew the lease, if this claim still holds it. Return its status."""
        task_id = claim.order.task_id
        names = [self._keys.state(task_id), self._keys.lease(task_id)]
        return LeaseStatus(self._scripts.run("renew", names, claim.order.epoch, claim.token, self._lease_ms))

    def cut(self, claim: TurnClaim) -> Cut | None:
        """Return the request to end the turn, or None."""
        answer = self._scripts.run("cancel_request", [self._keys.state(claim.order.task_id)], claim.order.epoch)
        return None if answer is None else Cut(float(answer[0]), int(answer[1]))

    def defer(
        self, claim: TurnClaim, seconds: float, event: StatusChanged, refused: bool, declined_by: str = ""
    ) -> bool:
        """Defer the turn for these seconds. Return False if this claim does not hold the lease."""
        task_id = claim.order.task_id
        names = [self._keys.state(task_id), self._keys.events(task_id), self._keys.lease(task_id)]
        delay_ms = max(0, int(seconds * 1000))
        arguments = [claim.order.epoch, claim.token, delay_ms, int(refused), event.reason, body(event), declined_by]
        return bool(self._scripts.run("defer", names, *arguments))

    def restart(self, task_id: str, epoch: int, event: AnyEvent, token: str = "") -> int | None:
        """Void the attempt. Return the new epoch, or None if the fence moved or another worker's lease is live."""
        names = [self._keys.state(task_id), self._keys.events(task_id), self._keys.lease(task_id)]
        return self._scripts.run("restart", names, epoch, uuid.uuid4().hex, token, body(event)) or None

    def ring(self, task_id: str, epoch: int, again: bool) -> int:
        """Count that the pending decision was found unclaimed. Return the count, or 0 if the fence moved.

        With `again`, also record this moment as its last dispatch.
        """
        arguments = [epoch, uuid.uuid4().hex, int(again)]
        return int(self._scripts.run("count_redelivery", [self._keys.state(task_id)], *arguments))


class RedisCalls:
    """Leases on tool calls, and the outcomes of calls; each lease lasts `lease` seconds."""

    def __init__(self, scripts: Scripts, keys: Keys, lease: float) -> None:
        self._scripts = scripts
        self._keys = keys
        self._lease_ms = int(lease * 1000)

    def claim(self, order: CallOrder, token: str) -> bool:
        """Claim the call. Return True if this worker holds it now."""
        arguments = [order.epoch, order.call_id, order.attempt, token, self._lease_ms]
        return bool(self._scripts.run("claim_call", self._names(order), *arguments))

    def renew(self, order: CallOrder, token: str) -> bool:
        """Renew the lease. Return False if this worker no longer holds the call."""
        arguments = [order.epoch, order.call_id, token, self._lease_ms]
        return bool(self._scripts.run("renew_call", self._names(order), *arguments))

    def record(self, order: CallOrder, token: str | None, outcome: Outcome, event: AnyEvent) -> int | None:
        """Store the outcome, once. Return the number of outcomes of the step, or None if the call is not held."""
        names = [*self._names(order), self._keys.events(order.task_id)]
        arguments = [order.epoch, order.call_id, order.attempt, token or ""]
        return self._scripts.run("record_outcome", names, *arguments, outcome.model_dump_json(), body(event)) or None

    def give_back(self, order: CallOrder, token: str, declined_by: str = "") -> None:
        """Release the lease, so that this attempt may be claimed again. Nothing happens if it is not held."""
        arguments = [order.epoch, order.call_id, order.attempt, token, declined_by]
        self._scripts.run("release_call", self._names(order), *arguments)

    def restart(self, order: CallOrder, lost: bool = False) -> int | None:
        """Void an attempt whose lease has expired, or whose worker is gone. Return the next attempt, or None."""
        arguments = [order.epoch, order.call_id, order.attempt, uuid.uuid4().hex, int(lost)]
        return self._scripts.run("restart_call", self._names(order), *arguments) or None

    def _names(self, order: CallOrder) -> list[str]:
        keys = self._keys
        return [keys.state(order.task_id), keys.calls(order.task_id), keys.lease(order.task_id, order.call_id)]
