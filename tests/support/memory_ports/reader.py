"""A client that collects the items of a merged stream and asserts that none is missing or repeated."""

from collections.abc import Iterable
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.domain.stream.event import StreamReset, TaskEnded, TurnRestarted
from roboco.domain.stream.item import ItemData, StepFinal, StreamItem, TextPartDelta
from roboco.domain.stream.merged import Cursor, MergedStream, ReadSteps


class ItemReader:
    """The received steps, the text so far of unfinished steps, and whether the task's end was received."""

    def __init__(self, is_redis_lost: bool = False) -> None:
        """With `is_redis_lost`, drop the text of a step that is final.

        A process whose state is older than the workspace may stream text until it stores its step: the stored step
        counts.
        """
        self._is_redis_lost = is_redis_lost
        self.steps: list[TaskStep] = []
        self.texts: dict[str, str] = {}
        self.ended = False
        self._ended_ids: set[str] = set()

    def show(self, item: ItemData) -> None:
        """Apply one item. Raise AssertionError if a step is missing, repeated, or differs from its text."""
        match item:
            case TextPartDelta() if self._is_redis_lost and item.step_id in self._ended_ids:
                pass
            case TextPartDelta():
                assert item.step_id not in self._ended_ids, f"text arrives for a step that is final: {item.text!r}"
                before = "" if item.replace else self.texts.get(item.step_id, "")
                self.texts[item.step_id] = before + item.text
            case TurnRestarted():
                self.texts.pop(item.step_id, None)
            case StreamReset():
                self.texts = {}
            case StepFinal():
                self._final(item.step)
            case TaskEnded():
                self.ended = True
            case _:
                pass

    def _final(self, step: TaskStep) -> None:
        assert step.seq == len(self.steps), f"step {step.seq} follows {len(self.steps)} steps"
        if step.by_agent:
            held = self.texts.pop(step.step_id, "")
            assert held == step.text, f"of step {step.seq} the reader holds {held!r}, it is {step.text!r}"
        self.steps.append(step)
        self._ended_ids.add(step.step_id)


def items_of(records: Iterable[dict[str, Any]], read_steps: ReadSteps, cursor: str = "") -> list[StreamItem]:
    """Return the items that a follower at the cursor receives from these messages."""
    view = MergedStream(Cursor.parse(cursor) if cursor else Cursor(), read_steps)
    return [item for record in records for item in view.feed(record)]


def read_items(items: Iterable[StreamItem], is_redis_lost: bool = False) -> ItemReader:
    """Return a reader that has applied all the items."""
    reader = ItemReader(is_redis_lost)
    for item in items:
        reader.show(item.data)
    return reader
