"""Reader: a client that holds what the merged stream shows, and complains of a hole or a repetition."""

from collections.abc import Iterable
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.domain.stream.event import StreamReset, TaskEnded, TurnRestarted
from roboco.domain.stream.item import ItemData, StepFinal, StreamItem, TextPartDelta
from roboco.domain.stream.merged import Cursor, MergedStream, ReadSteps


class Reader:
    """Holds the steps it was shown, the text so far of the step to come, and whether it saw the end."""

    def __init__(self) -> None:
        self.steps: list[TaskStep] = []
        self.texts: dict[str, str] = {}
        self.ended = False
        self._ended_ids: set[str] = set()

    def show(self, item: ItemData) -> None:
        """Take one item in; AssertionError if a step is missing, comes twice or has another text."""
        match item:
            case TextPartDelta():
                assert item.step_id not in self._ended_ids, f"text comes for a step that is final: {item.text!r}"
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
        assert step.seq == len(self.steps), f"step {step.seq} comes after {len(self.steps)} steps"
        if step.by_agent:
            held = self.texts.pop(step.step_id, "")
            assert held == step.text, f"of step {step.seq} the reader holds {held!r}, it is {step.text!r}"
        self.steps.append(step)
        self._ended_ids.add(step.step_id)


def items_of(records: Iterable[dict[str, Any]], read_steps: ReadSteps, cursor: str = "") -> list[StreamItem]:
    """The items of the messages, for a follower at the cursor."""
    view = MergedStream(Cursor.parse(cursor) if cursor else Cursor(), read_steps)
    return [item for record in records for item in view.feed(record)]


def read(items: Iterable[StreamItem]) -> Reader:
    """A reader that was shown all the items."""
    reader = Reader()
    for item in items:
        reader.show(item.data)
    return reader
