"""first_steps: the first steps of a submitted task, from its submission: imported messages, and the prompt."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roboco.domain.history.lineage import Parent
from roboco.domain.history.part import Artifact, ArtifactPart, Part, TextPart, with_step_id
from roboco.domain.history.priority import PRIORITY
from roboco.domain.history.start_time import ETA, requested_start_time
from roboco.domain.history.state import CONVERSATION
from roboco.domain.history.step import IMPORTED, PROMPT, USER, TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.inbox.imported_message import ImportedMessage
from roboco.domain.inbox.submission import Submission
from roboco.domain.notification import TARGET_COUNT_KEY
from roboco.domain.team.collaboration import Sequential
from roboco.domain.team.team import Team
from roboco.errors import UsageError


def first_steps(
    submission: Submission, team: Team, parent: Parent | None, artifacts: tuple[Artifact, ...], now: datetime
) -> tuple[TaskStep, ...]:
    """Return the first steps of the task, sealed: the imported messages, and then the prompt.

    The first of them has the metadata of the whole task, and the last one those of the prompt. Raise UsageError if the
    start time is wrong, or if the team lacks an agent of an imported message.
    """
    files = (ArtifactPart(artifact=artifact) for artifact in artifacts)
    contents: list[_Content] = [_imported(team, index, one) for index, one in enumerate(submission.history)]
    contents.append(_Content(USER, (TextPart(text=submission.prompt), *files), _message_metadata(submission)))
    steps: list[TaskStep] = []
    for seq, content in enumerate(contents):
        step_id = step_id_at(submission.task_id, seq)
        step = TaskStep(
            step_id=step_id,
            seq=seq,
            parent_id=None if parent is None or seq > 0 else parent.step_id,
            agent_name=content.agent_name,
            parts=with_step_id(content.parts, step_id),
            created_at=now,
            metadata=content.metadata | (_task_metadata(submission, parent, now) if seq == 0 else {}),
        )
        steps.append(step.sealed(steps[-1].digest if steps else ""))
    return tuple(steps)


@dataclass(frozen=True)
class _Content:
    """The content of a first step."""

    agent_name: str
    parts: tuple[Part, ...]
    metadata: dict[str, Any]


def _imported(team: Team, index: int, message: ImportedMessage) -> _Content:
    name = USER if message.role == "user" else message.agent or _last_speaker(team)
    if name != USER and not team.has_agent(name):
        possible = ", ".join(agent.name for agent in team.agents)
        raise UsageError(
            f"history.{index}.agent: no agent {name[:80]!r} in team {team.name!r}, possible are {possible}"
        )
    return _Content(name, (TextPart(text=message.text),), {IMPORTED: True})


def _last_speaker(team: Team) -> str:
    """Return the agent that would answer a message after the imported ones, as in a task that waits for its user."""
    return team.agents[-1].name if isinstance(team.collaboration_model, Sequential) else team.initial_agent


def _task_metadata(submission: Submission, parent: Parent | None, now: datetime) -> dict[str, Any]:
    """Return the metadata of the whole task. Fields that are not set are left out."""
    begins = requested_start_time(submission.eta, submission.countdown, now)
    optional: dict[str, Any] = {
        "title": submission.title,
        "by": submission.by,
        PRIORITY: None if submission.priority == "normal" else submission.priority,
        ETA: None if begins is None else begins.isoformat(),
        "parent": None if parent is None else parent.model_dump(mode="json"),
        TARGET_COUNT_KEY: len(submission.notify) if "notify" in submission.model_fields_set else None,
        CONVERSATION: submission.conversation or None,
        PROMPT: submission.prompt if submission.history else None,
    }
    required = {"submission": submission.digest(), "context": submission.context}
    return required | {name: value for name, value in optional.items() if value is not None}


def _message_metadata(submission: Submission) -> dict[str, Any]:
    """Return the metadata of the prompt. Fields that are not set are left out."""
    optional = {"agent": submission.agent, "by": submission.by, "item_id": submission.item_id}
    return submission.metadata() | {name: value for name, value in optional.items() if value is not None}
