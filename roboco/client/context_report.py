"""ContextReport: the steps that the prompt of an agent's turn contained, and those that it left out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.domain.prompt.working_memory import ranges
from roboco.errors import NotFound

MAX_LISTED_TURNS = 20
"""Turns that an error message lists."""


@dataclass(frozen=True)
class ContextReport:
    """The prompt of a turn."""

    step: int
    """The position of the turn's step."""
    agent_name: str
    context: dict[str, Any]
    """The included and left-out steps, the reasons, and the tokens, as the step's metadata holds them."""
    changes: dict[str, Any] | None
    """The differences from the previous turn of the same agent, or None for its first turn. Steps are ranges."""


def find_turn(task_id: str, steps: Iterable[TaskStep], seq: int | None) -> tuple[TaskStep, TaskStep | None]:
    """Return the turn at this position, by default the newest one, and the previous turn of the same agent, or None.

    Raises UsageError if there is no such turn.
    """
    turns = [step for step in steps if step.by_agent and "context" in step.metadata]
    if not turns:
        raise NotFound(f"no agent of task {task_id!r} has had a turn yet")
    matching = [step for step in turns if seq is None or step.seq == seq]
    if not matching:
        possible = ", ".join(str(step.seq) for step in turns[-MAX_LISTED_TURNS:])
        raise NotFound(f"step {seq}: is no turn of an agent in task {task_id!r}; those are {possible}")
    step = matching[-1]
    before = (one for one in reversed(turns) if one.seq < step.seq and one.agent_name == step.agent_name)
    return step, next(before, None)


def context_report(step: TaskStep, before: TaskStep | None) -> ContextReport:
    """Return the report of a turn and the previous one of its agent."""
    changes = None if before is None else context_changes(before, step)
    return ContextReport(step.seq, step.agent_name, step.metadata["context"], changes)


def context_changes(before: TaskStep, step: TaskStep) -> dict[str, Any]:
    """Return the ranges of steps that the prompt of a step contained and the one before did not, and vice versa."""
    old, new = (_positions(one.metadata["context"].get("included") or []) for one in (before, step))
    tokens, old_tokens = (_total_tokens(one) for one in (step, before))
    return {
        "since": before.seq,
        "added": ranges(sorted(new - old)),
        "removed": ranges(sorted(old - new)),
        "tokens": tokens - old_tokens,
        "summary": step.metadata["context"].get("summary") != before.metadata["context"].get("summary"),
    }


def _positions(ranges: list[list[int]]) -> set[int]:
    return {seq for first, last in ranges for seq in range(first, last + 1)}


def _total_tokens(step: TaskStep) -> int:
    return int((step.metadata["context"].get("tokens") or {}).get("total", 0))
