"""Sample steps, events and chunks."""

from collections.abc import Sequence
from datetime import UTC, datetime

from roboco.domain.history.part import TextPart
from roboco.domain.history.step import USER, TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged, StreamChunk
from roboco.ports.snapshot import TokenUsage

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
TASK = "task-17"
USAGE = TokenUsage(100, 7)
"""The tokens of a reply so far."""


def step_after(steps: Sequence[TaskStep], text: str = "", agent: str = "writer") -> TaskStep:
    """Return the sealed step that follows these."""
    seq = len(steps)
    step = TaskStep(
        step_id=step_id_at(TASK, seq),
        seq=seq,
        agent_name=agent if seq else USER,
        parts=(TextPart(text=text or f"step {seq} schön"),),
        created_at=NOON,
    )
    return step.sealed(steps[-1].digest if steps else "")


def make_chain(count: int) -> list[TaskStep]:
    """Return a history with this number of steps."""
    steps: list[TaskStep] = []
    for _ in range(count):
        steps.append(step_after(steps))
    return steps


def status_event(reason: str) -> StatusChanged:
    """Return an event that tests recognize by its reason."""
    return StatusChanged(task_id=TASK, timestamp=NOON, status=TaskStatus.RUNNING, reason=reason)


def text_chunk(text: str, attempt: int = 1) -> StreamChunk:
    """Return a chunk of the turn at position 1."""
    return StreamChunk(task_id=TASK, step_id=step_id_at(TASK, 1), agent_name="writer", attempt=attempt, text=text)
