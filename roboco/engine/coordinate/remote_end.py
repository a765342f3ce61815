"""remote_end: a turn that no worker continues ends, and its remote agent's task with it (`remote_turn.py`).

A coordinator has no key of the agent. So an agents worker cancels the task: it gets a message with the attempt CANCELS,
which no worker can claim. Only a coordinator that would append the next step sends it. So a pause, or an interruption
that is too late, cancels no remote task.
"""

import logging

from roboco.domain.team.model_profile import REMOTE_AGENT, ModelProfile
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.ports.assignment import CANCELS
from roboco.ports.remote_task import RemoteRecord, record_path, records_of_turn
from roboco.ports.snapshot import Phase, Snapshot, TaskPosition
from roboco.ports.workspace import Files

_log = logging.getLogger(__name__)
CHECK_DELAY = 5.0
"""Seconds between two messages to cancel a remote task."""
REMOTE_STOP_SECONDS = 30.0
"""Seconds, beyond a lease, in which a remote task must be cancelled. Then the step says that it may still run."""


def remote_profiles(team: Team, agent_name: str) -> list[ModelProfile]:
    """Return the profiles of remote agents by which this agent may act; of any agent, if the name is none of them."""
    agents = [team.agent(agent_name)] if team.has_agent(agent_name) else team.agents
    own = [team.profile(agent) for agent in agents]
    possible = [*own, *(team.models[name] for profile in own for name in profile.fallback)]
    return [one for one in possible if one.provider == REMOTE_AGENT]


def close_turn(files: Files, team: Team, task_id: str, turn: TaskPosition) -> RemoteRecord | None:
    """Return the record of the message that the agent of the turn may have. If there is none, close the turn.

    Cost: nothing for an agent that is a model; else a read, and a further one and a write to close the turn.
    """
    if not remote_profiles(team, turn.agent):
        return None
    closed = RemoteRecord(closed=turn.epoch).model_dump_json(exclude_defaults=True).encode()
    while True:
        records = records_of_turn(files, task_id, turn.seq)
        if records and not records[-1].is_void:
            return records[-1]
        if records and records[-1].closed >= turn.epoch:
            return None
        if files.create(record_path(task_id, turn.seq, len(records)), closed):
            return None


def record_to_end(engine: Engine, team: Team, task_id: str, task: Snapshot) -> RemoteRecord | None:
    """Return the record of the message to a remote agent at the position of the next step, or None: none follows.

    Cost: as `close_turn`.
    """
    if task.position.phase is Phase.TOOLS:  # no turn has this position
        return None
    return close_turn(engine.workspace.files, team, task_id, task.position)


def is_awaited(engine: Engine, task_id: str, task: Snapshot, record: RemoteRecord | None) -> bool:
    """Return True if the remote task of this record has to end before the next step, and let a worker cancel it."""
    if record is None or not record.runs:
        return False
    epoch, since = task.position.epoch, task.attempt.cancel_requested_for
    if since is None:
        engine.tasks.task_store.add_items(task_id, (), interrupt=True, epoch=epoch)
    elif since > engine.policy.lease + REMOTE_STOP_SECONDS:
        why = record.error or "no answer"
        _log.warning("task %s: the remote task %r is not cancelled: %s", task_id, record.task, why)
        return False
    engine.tasks.schedule.set(task_id, CHECK_DELAY)
    engine.services.dispatcher.turn(task.turn_order(task_id, attempt=CANCELS), task.position.agent)
    return True
