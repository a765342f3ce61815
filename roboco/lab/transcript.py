"""The transcript of a follower that applies each item of the stream as documented."""

from dataclasses import dataclass, field

from roboco.domain.stream.event import StreamReset, TurnRestarted
from roboco.domain.stream.item import StepFinal, StreamItem, TextPartDelta


@dataclass
class Transcript:
    """The text of each step, assembled from deltas, and the positions of the final steps in order."""

    texts: dict[str, str] = field(default_factory=dict)
    finals: list[int] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    _final_ids: set[str] = field(default_factory=set)

    def take(self, item: StreamItem) -> None:
        """Apply one item, as the docstring of its class demands."""
        self.types.append(item.type)
        match item.data:
            case TextPartDelta() as delta:
                before = "" if delta.replace else self.texts.get(delta.step_id, "")
                self.texts[delta.step_id] = before + delta.text
            case TurnRestarted() as restarted:
                self.texts.pop(restarted.step_id, None)
            case StreamReset():
                self.texts = {step_id: text for step_id, text in self.texts.items() if step_id in self._final_ids}
            case StepFinal() as final:
                self.finals.append(final.step.seq)
                self._final_ids.add(final.step.step_id)
            case _:
                pass
