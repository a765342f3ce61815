"""One task on the Redis adapters, and what a test wants to know of it."""

import json
from collections.abc import Sequence
from typing import Any

import redis

from roboco.adapters.redis.agenda import RedisInbox, RedisLogs
from roboco.adapters.redis.board import RedisBoard
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.leases import RedisCalls, RedisTurns
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.event import AnyEvent
from roboco.domain.state import fold
from roboco.domain.status import TaskStatus
from roboco.domain.step import TaskStep
from roboco.ports import CallOrder, Choice, Phase, Snapshot, TurnClaim, TurnOrder
from tests.contract.samples import TASK, chain, step_after

LONG = 60.0
"""Seconds of a lease that no test outlives."""
SHORT = 0.03
"""Seconds of a lease whose end a test waits for."""


class TaskOnRedis:
    """The task with its board, leases and logs; `steps` is its history, as the workspace would have it."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self.client = client
        self.keys = keys
        self.scripts = Scripts(client)
        self.board = RedisBoard(self.scripts, keys)
        self.turns = RedisTurns(self.scripts, keys, LONG)
        self.calls = RedisCalls(self.scripts, keys, LONG)
        self.brief_turns = RedisTurns(self.scripts, keys, SHORT)
        self.brief_calls = RedisCalls(self.scripts, keys, SHORT)
        self.inbox = RedisInbox(client, keys)
        self.logs = RedisLogs(client, keys)
        self.steps: list[TaskStep] = []

    def create(self, count: int = 1, *events: AnyEvent) -> bool:
        """Set the task up with so many steps."""
        self.steps = chain(count)
        return self.board.create(TASK, self.steps, fold(self.steps), events)

    def choose(self, phase: Phase = Phase.TURN, *events: AnyEvent) -> int:
        """Write a choice down at the present fence: the new epoch."""
        choice = Choice(phase, TaskStatus.RUNNING, agent="writer")
        epoch = self.board.choose(TASK, self.now.epoch, choice, events)
        assert epoch is not None
        return epoch

    def order(self) -> TurnOrder:
        """The order of the pending turn."""
        return TurnOrder(TASK, self.now.seq, self.now.epoch, self.now.attempt)

    def claim(self, token: str = "me") -> TurnClaim:
        """The claim on the pending turn."""
        claim = self.turns.claim(self.order(), token, 10)
        assert claim is not None
        return claim

    def call(self, call_id: str = "tc_1", attempt: int = 1) -> CallOrder:
        """The order of a call of the last step."""
        return CallOrder(TASK, self.now.seq - 1, self.now.epoch, call_id, attempt)

    def commit(self, *events: AnyEvent, text: str = "") -> bool:
        """Take over one more step at the present fence."""
        self.steps.append(step_after(self.steps, text))
        return self.board.commit(TASK, self.now.epoch, self.steps[-1], fold(self.steps), events)

    @property
    def now(self) -> Snapshot:
        """The task as the board has it."""
        snapshot = self.board.load(TASK, 100)
        assert snapshot is not None
        return snapshot

    @property
    def generation(self) -> str | None:
        """The generation of the logs."""
        found: Any = self.client.hget(self.keys.state(TASK), "generation")
        return None if found is None else str(found)

    def told(self) -> list[tuple[int, int, str]]:
        """The event log: number, chunks before it, reason."""
        return [(one["seq"], one["chunks"], one["reason"]) for one in self._log(self.keys.events(TASK))]

    def said(self) -> list[tuple[int, int, str]]:
        """The content log: number, events before it, text."""
        return [(one["seq"], one["events"], one["text"]) for one in self._log(self.keys.content(TASK))]

    def wipe(self) -> None:
        """Lose all that Redis has of this test, as if it had been emptied."""
        for key in self.names():
            self.client.delete(key)

    def names(self) -> list[str]:
        """The keys of this test."""
        return sorted(self.client.scan_iter(f"{self.keys.prefix}:*", count=1000))

    def _log(self, log: str) -> Sequence[dict[str, Any]]:
        return [json.loads(message) for _, message in self.logs.entries(log, 0)]
