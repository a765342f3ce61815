"""TaskState: what a history comes to, kept up step by step so that no turn has to read all of it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from roboco.domain.part import Recorded
from roboco.domain.step import TaskStep

KEPT_ITEMS = 64
"""How many ids of the newest messages from outside are remembered, to drop one that comes again."""


class TaskState(Recorded):
    """The fold of a history: the same steps always give the same state."""

    steps: int = 0
    last_digest: str = ""
    last_agent: str | None = None
    turns: dict[str, int] = {}
    rules: dict[str, int] = {}
    tokens_in: int = 0
    tokens_out: int = 0
    items: tuple[str, ...] = ()
    started_at: datetime | None = None

    @property
    def tokens(self) -> int:
        """Tokens in and out together, as the models reported them."""
        return self.tokens_in + self.tokens_out

    def after(self, step: TaskStep) -> "TaskState":
        """The state with one more step."""
        usage = step.metadata.get("usage") or {}
        rule = (step.metadata.get("routing") or {}).get("rule")
        finished = step.agent_name if step.by_agent and not step.calls else None
        return TaskState(
            steps=self.steps + 1,
            last_digest=step.digest,
            last_agent=step.agent_name if step.by_agent else self.last_agent,
            turns=_counted(self.turns, finished),
            rules=_counted(self.rules, rule),
            tokens_in=self.tokens_in + _number(usage.get("tokens_in")),
            tokens_out=self.tokens_out + _number(usage.get("tokens_out")),
            items=(*self.items, *_items(step))[-KEPT_ITEMS:],
            started_at=self.started_at or step.created_at,
        )


def fold(steps: Iterable[TaskStep]) -> TaskState:
    """The state after all these steps, from the first one on."""
    state = TaskState()
    for step in steps:
        state = state.after(step)
    return state


def _counted(counts: dict[str, int], key: str | None) -> dict[str, int]:
    return counts if key is None else counts | {key: counts.get(key, 0) + 1}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _items(step: TaskStep) -> tuple[str, ...]:
    item_ids = [step.metadata.get("item_id"), *(step.metadata.get("resolved") or {}).values()]
    return tuple(item_id for item_id in item_ids if isinstance(item_id, str))
