"""Goals: those of roboto.ai become goals of Roboco with a JSON Schema, and their states become records again.

An agent achieves a goal by calling its tool with the input that roboto.ai's own tools take, so that the client's typed
results can read it. The description of the schema is the JSON of the request: the agent reads it, and the record of
the goal is made from it.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from roboco.domain.session.agent_session import NUMBER, declared_data, goal_record
from roboco.domain.session.goal import SessionGoal

_Description = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
_Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
_Guidance = Annotated[str, Field(min_length=1, max_length=4000)]


class SummaryGoal(BaseModel):
    """The summary of a dataset."""

    goal_type: Literal["dataset_summary"]
    dataset_id: Annotated[str, Field(max_length=200)]
    summary_format_spec_prompt: _Guidance | None = None

    def task(self) -> str:
        """Return the work for the agent."""
        return f"Summarize the dataset {self.dataset_id}."

    def properties(self) -> dict[str, Any]:
        """Return the input of the goal's tool."""
        return {"summary": {"type": "string", "minLength": 1}}


class TriageGoal(BaseModel):
    """A decision on each label of a vocabulary, for a dataset."""

    goal_type: Literal["dataset_triage"]
    dataset_id: Annotated[str, Field(max_length=200)]
    label_vocabulary: Annotated[dict[_Label, _Description], Field(min_length=1, max_length=50)]

    def task(self) -> str:
        """Return the work for the agent."""
        return f"Decide for each label of the vocabulary whether it applies to the dataset {self.dataset_id}."

    def properties(self) -> dict[str, Any]:
        """Return the input of the goal's tool."""
        decision = {
            "label": {"type": "string", "enum": list(self.label_vocabulary)},
            "applies": {"type": "boolean"},
            "justification": {"type": "string", "minLength": 1},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        }
        count = len(self.label_vocabulary)
        return {"label_decisions": _list_of(decision, list(decision)) | {"minItems": count, "maxItems": count}}


class EventsGoal(BaseModel):
    """Events in a dataset, from a vocabulary."""

    goal_type: Literal["create_events"]
    dataset_id: Annotated[str, Field(max_length=200)]
    event_vocabulary: Annotated[dict[_Name, _Description], Field(min_length=1, max_length=50)]
    tag_vocabulary: Annotated[dict[_Name, _Description], Field(max_length=50)] = {}
    collection_id: Annotated[str, Field(max_length=200)] | None = None
    event_focus_prompt: _Guidance | None = None

    def task(self) -> str:
        """Return the work for the agent."""
        return f"Find the events of the vocabulary in the dataset {self.dataset_id}."

    def properties(self) -> dict[str, Any]:
        """Return the input of the goal's tool."""
        tag = {"type": "string", **({"enum": list(self.tag_vocabulary)} if self.tag_vocabulary else {})}
        event = {
            "name": {"type": "string", "enum": list(self.event_vocabulary)},
            "start_time": {"type": "integer"},
            "end_time": {"type": "integer"},
            "description": {"type": "string"},
            "tags": {"type": "array", "items": tag, **({} if self.tag_vocabulary else {"maxItems": 0})},
            "target_id": {"type": "string"},
        }
        return {"events": _list_of(event, ["name", "start_time", "end_time", "target_id"])}


WireGoal = Annotated[SummaryGoal | TriageGoal | EventsGoal, Field(discriminator="goal_type")]
"""A goal of a request."""


def declared_goals(goals: list[WireGoal]) -> list[dict[str, Any]]:
    """Return the goals as a message of Roboco declares them. Goals of one type are numbered."""
    found: list[dict[str, Any]] = []
    for goal in goals:
        earlier = sum(1 for other in found if NUMBER.sub("", other["name"]) == goal.goal_type)
        properties = goal.properties()
        schema = {
            "type": "object",
            "description": json.dumps(goal.model_dump(exclude_none=True), separators=(",", ":")),
            "properties": properties,
            "required": list(properties),
        }
        name = f"{goal.goal_type}_{earlier + 1}" if earlier else goal.goal_type
        found.append({"name": name, "description": goal.task(), "schema": schema})
    return found


def synthesized_text(goals: list[WireGoal]) -> str:
    """Return the message of a user who sends goals alone."""
    return "\n".join(goal.task() for goal in goals)


def goal_records(goals: list[SessionGoal]) -> list[dict[str, Any]]:
    """Return the states of the goals that a client of roboto.ai has declared, as JSON.

    Other goals are left out: the client knows its own types alone.
    """
    return [goal_record(goal).model_dump(mode="json") for goal in goals if declared_data(goal) is not None]


def _list_of(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": properties, "required": required}}
