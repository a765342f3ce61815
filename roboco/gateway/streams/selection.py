"""Selection: the items of a stream that a client asks for. Pure: it depends on the item alone, not on those before.

Therefore a stream that is cut and resumed shows exactly the items of the whole one.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roboco.domain.canonical_json import canonical_json
from roboco.domain.reading_form import StreamForm, in_form
from roboco.domain.stream.event import AgentHandedOff, AgentSelected
from roboco.domain.stream.item import StepFinal, StreamItem, TextPartDelta, ToolCallItem

ALWAYS_SHOWN: Final = frozenset(
    {"event_turn_restart", "event_stream_reset", "event_error", "event_unknown", "event_task_end"}
)
"""Items of every channel: they announce void or missing text, the end, and messages of a newer release."""


class StreamChannel(StrEnum):
    """A part of the stream."""

    CONTENT = "content"
    """Texts, tool calls, tool results and steps."""
    EVENTS = "events"
    """Execution events."""


@dataclass(frozen=True)
class Selection:
    """Conditions on items. An item is shown if it meets all of them."""

    channel: StreamChannel | None = None
    agent: str | None = None
    """The name of an agent. Items that name no agent concern the whole task, and are shown."""
    form: StreamForm | None = None
    """The document whose names the items have. Items that it has no name for are left out."""

    def shows(self, item: StreamItem) -> bool:
        """Return True if the client asks for the item."""
        is_of_channel = self.channel is None or (self.channel is StreamChannel.EVENTS) == item.type.startswith("event_")
        is_of_agent = self.agent is None or self.agent in _agents_of(item, self.agent)
        wanted = item.type in ALWAYS_SHOWN or (is_of_channel and is_of_agent)
        return wanted and (self.form is None or in_form(item, self.form) is not None)

    def content(self, item: StreamItem) -> tuple[str, str]:
        """Return the type of a shown item and its data in JSON, in the form of the client."""
        if self.form is None:
            return item.type, item.data_json
        data = in_form(item, self.form)
        kind = item.type if self.form == "000" else data["type"]
        return kind, canonical_json({"task_id": item.task_id, "data": data} if item.task_id else data)


def _agents_of(item: StreamItem, otherwise: str) -> tuple[str, ...]:
    """Return the agents that the item names, or `otherwise` if it names none."""
    match item.data:
        case TextPartDelta(agent_name=name) | ToolCallItem(agent_name=name) | AgentSelected(agent_name=name):
            return (name,)
        case StepFinal(step=step):
            return (step.agent_name,) if step.by_agent else (otherwise,)
        case AgentHandedOff(from_agent=before, to_agent=after):
            return before, after
        case _:
            return (otherwise,)
