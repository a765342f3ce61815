"""A deployment on a real Redis and a folder: its processes run in this one, and its messages are in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import redis

from roboco.domain.ids import SHARD_TAGS
from roboco.domain.paths import OPEN_MARKERS, open_marker_path
from roboco.domain.task_summary import TaskSummary
from roboco.engine.coordinate.advance import advance
from roboco.engine.engine import Engine
from roboco.engine.operate.sweep import sweep_shard
from roboco.engine.workspace_records import FrozenTeams
from roboco.ports.clock import Clock
from roboco.ports.snapshot import Phase
from roboco.redis.dead_letters import RedisDeadLetters
from roboco.redis.keys import Keys
from roboco.redis.leases import RedisLeases
from roboco.redis.logs import RedisEventLogs
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.redis.task_index import RedisTaskIndex
from roboco.redis.task_store import RedisTaskStore, StoredSteps
from roboco.workspace.open import open_workspace
from tests.support.memory_ports.journeys import Journey
from tests.support.memory_ports.parts import with_parts
from tests.support.memory_ports.sweeping import fill_schedule
from tests.support.memory_ports.world import POLICY, TASK, Given, World, world_parts
from tests.support.stack import until

FAST = replace(POLICY, redelivery_delay=0.05)


class Deployment(World):
    """A world whose state is in Redis, below a prefix, and whose workspace is a folder."""

    def __init__(self, given: Given, client: redis.Redis, prefix: str, folder: Path) -> None:
        self.client, self.keys = client, Keys(prefix)
        self.workspace = open_workspace(folder.as_uri())
        super().__init__(given)
        self.files = self.workspace.files  # type: ignore[assignment]
        self.histories = self.workspace.histories  # type: ignore[assignment]

    @classmethod
    def of(cls, journey: Journey, client: redis.Redis, prefix: str, folder: Path) -> "Deployment":
        """Return a deployment for the journey."""
        deployments: list[Deployment] = []
        live = journey.live
        script: Any = journey.script if live is None else lambda request: live(request, deployments[0])
        given = world_parts(script, journey.functions, journey.routers, FAST)
        deployments.append(cls(given, client, prefix, folder))
        return deployments[0]

    def process(self) -> Engine:
        """Return the engine of a new process."""
        scripts, keys, files = Scripts(self.client), self.keys, self.workspace.files
        lease = self.given.policy.lease
        large_steps = StoredSteps(self.workspace.histories.read)
        return with_parts(
            super().process(),
            task_store=RedisTaskStore(scripts, keys, large_steps),
            leases=RedisLeases(scripts, keys, lease, large_steps),
            schedule=RedisSchedule(scripts, keys),
            dead_letters=RedisDeadLetters(lambda: self.client, keys),
            event_logs=RedisEventLogs(self.client, keys),
            task_index=RedisTaskIndex(scripts, keys),
            histories=self.workspace.histories,
            files=files,
            clock=Clock(),
            frozen_teams=FrozenTeams(files),
        )

    def settle(self, task_id: str = TASK) -> None:
        """Deliver and sweep until the task has ended or waits."""
        until(lambda: self._is_settled_after_a_round(task_id), 60, f"task {task_id} settles: {self.failures[:3]}")

    def summary(self, task_id: str = TASK) -> TaskSummary:
        """Return the summary of the workspace."""
        return self.engine.workspace.summaries.require(task_id)

    def open_tasks(self) -> list[str]:
        """Return the ids of the tasks that are not closed."""
        return self.files.names(OPEN_MARKERS)

    def _is_settled_after_a_round(self, task_id: str) -> bool:
        self.drain()
        before = self._place(task_id)
        self._run_worker(self._sweep)
        self.drain()
        if self.files.get(open_marker_path(task_id)) is None:
            return self.summary(task_id).status.ended
        return before is not None and before == self._place(task_id) and before[0] is Phase.WAIT

    def _place(self, task_id: str) -> tuple[Phase, int, int] | None:
        task = self.engine.tasks.task_store.load(task_id, 1)
        return None if task is None else (task.position.phase, task.position.epoch, task.position.seq)

    def _sweep(self) -> None:
        """Sweep all shards, and run a pass of the sweeper over each open task, as if all of them were due."""
        fill_schedule(self.engine)
        for shard in range(len(SHARD_TAGS)):
            sweep_shard(self.engine, shard, 200)
        for task_id in self.open_tasks():
            advance(self.engine, task_id, by_sweeper=True)
