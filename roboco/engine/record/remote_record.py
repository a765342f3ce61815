"""remote_record: the records of a turn's messages to a remote agent, and of the remote task that they have begun.

    {} ─────────► {task, agent} ─► {task, agent, end}
    │ refused           └─────────► {task, agent, cancelled, end or error}
    └─► {refused}, and a record with the next number for the next message
    {closed}: no message of a worker that has claimed the turn under this fence, or an earlier one

They are files of the workspace, so that any worker finds the remote task, also after the loss of Redis or of its
worker. A worker creates one before it sends a message, and the process that ends a turn without a message creates one,
too. So a late worker sends nothing after the next step of the task.
"""

import logging

from pydantic import ValidationError

from roboco.domain.canonical_json import sha256
from roboco.domain.history.step import REMOTE_TASK
from roboco.domain.paths import intent_path
from roboco.domain.schema import RecordModel
from roboco.domain.team.model_profile import REMOTE_AGENT, ModelProfile
from roboco.domain.team.team import Team
from roboco.ports.task_store import TaskPosition
from roboco.ports.workspace import Files

_log = logging.getLogger(__name__)
MAX_REFUSALS = 1000
"""The most times that the message of a turn is sent because it was refused before."""


class RemoteRecord(RecordModel):
    """A message to a remote agent. Without any field, it is unknown whether the agent has accepted it."""

    task: str = ""
    """The id of the remote task, or "" until the agent has named it."""
    agent: str = ""
    """The hash of the agent's address."""
    refused: bool = False
    """True if the message was certainly not accepted."""
    closed: int = 0
    """The fence of the process that has closed the turn to messages, or 0."""
    end: str = ""
    """The state in which the remote task has ended or asks, or ""."""
    cancelled: bool = False
    """True if a worker has asked the agent to cancel the task."""
    error: str = ""
    """Why that has failed, or ""."""

    @property
    def is_void(self) -> bool:
        """True if the agent has no message by this record: another one may follow."""
        return self.refused or bool(self.closed)

    @property
    def runs(self) -> bool:
        """True if the remote task may still run."""
        return bool(self.task) and not self.end

    def metadata(self) -> dict[str, object]:
        """Return the metadata of a turn's step about a remote task that did not end by itself; else {}."""
        if self.end and not self.cancelled:
            return {}
        state = self.end or ("running" if self.task else "unknown")
        about = {"id": self.task, "state": state.lower(), "error": self.error}
        return {REMOTE_TASK: {name: value for name, value in about.items() if value}}


def parse_record(data: bytes) -> RemoteRecord:
    """Return the record. One that cannot be read says no more than an empty one: the outcome is unknown."""
    try:
        return RemoteRecord.model_validate_json(data)
    except ValidationError as error:
        _log.warning("a record of a message to a remote agent cannot be read: %s", error.errors()[0]["msg"])
        return RemoteRecord()


def record_path(task_id: str, seq: int, number: int) -> str:
    """Return the path of a record of the turn at this position. Each message has another number."""
    return intent_path(task_id, f"turn-{seq:08d}-{number}")


def records_of_turn(files: Files, task_id: str, seq: int) -> list[RemoteRecord]:
    """Return the records of the turn at this position. The last one has the message that the agent may have.

    Cost: a read for each, and one if the agent has none.
    """
    records = list[RemoteRecord]()
    while len(records) < MAX_REFUSALS and (not records or records[-1].is_void):
        if (data := files.get(record_path(task_id, seq, len(records)))) is None:
            break
        records.append(parse_record(data))
    return records


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


def address_hash(address: object) -> str:
    """Return how records name the address of an agent."""
    return sha256(str(address))[:32]
