"""Goals of roboto.ai: each becomes a goal of Roboco, and its record is the request again."""

from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter
from roboto.ai.agent_session import AgentSessionGoalRecord

from roboco.domain.history.goal import Goal
from roboco.domain.session.goal import SessionGoal
from roboco.gateway.roboto.goals import WireGoal, declared_goals, goal_records

GOALS: TypeAdapter[list[WireGoal]] = TypeAdapter(list[WireGoal])
SUMMARY = {"goal_type": "dataset_summary", "dataset_id": "ds_1", "summary_format_spec_prompt": "Three lines."}
TRIAGE = {"goal_type": "dataset_triage", "dataset_id": "ds_1", "label_vocabulary": {"wet": "It rains.", "dry": "Else."}}
EVENTS = {"goal_type": "create_events", "dataset_id": "ds_1", "event_vocabulary": {"stop": "It stops."}}
INPUTS: dict[str, dict[str, Any]] = {
    "dataset_summary": {"summary": "All is well."},
    "dataset_triage": {
        "label_decisions": [
            {"label": label, "applies": False, "justification": "no rain", "confidence": 0.5}
            for label in ("wet", "dry")
        ]
    },
    "create_events": {"events": [{"name": "stop", "start_time": 1, "end_time": 2, "target_id": "ds_1"}]},
}


def stored(declared: dict[str, Any], index: int = 0, **fields: Any) -> SessionGoal:
    """Return the goal as a session shows it."""
    goal = Goal.model_validate(declared)
    return SessionGoal(
        name=goal.name,
        description=goal.description,
        goal_index=index,
        declared_seq=4,
        declared_at=datetime(2026, 1, 2, tzinfo=UTC),
        outcome_schema=goal.outcome,
        **fields,
    )


@pytest.mark.parametrize("wire", [SUMMARY, TRIAGE, EVENTS], ids=lambda wire: wire["goal_type"])
def test_a_goal_takes_the_input_of_roboto_and_gives_its_record_again(wire: dict[str, Any]) -> None:
    [declared] = declared_goals(GOALS.validate_python([wire]))
    jsonschema.validate(INPUTS[wire["goal_type"]], declared["schema"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, declared["schema"])
    [record] = goal_records([stored(declared, status="achieved", tool_use_id="tc_1")])
    read = AgentSessionGoalRecord.model_validate(record)
    assert (read.goal_type, read.status, read.message_sequence_num) == (wire["goal_type"], "achieved", 4)
    assert wire.items() <= read.goal_data.items()


def test_goals_of_one_type_have_different_names() -> None:
    declared = declared_goals(GOALS.validate_python([SUMMARY, TRIAGE, SUMMARY, SUMMARY]))
    assert [goal["name"] for goal in declared] == [
        "dataset_summary",
        "dataset_triage",
        "dataset_summary_2",
        "dataset_summary_3",
    ]
    assert [record["goal_type"] for record in goal_records([stored(goal) for goal in declared])] == [
        "dataset_summary",
        "dataset_triage",
        "dataset_summary",
        "dataset_summary",
    ]


@pytest.mark.parametrize("schema", [{}, {"description": 7}, {"description": "text"}, {"description": "[" * 10_000}])
def test_a_goal_of_another_client_has_no_record(schema: dict[str, Any]) -> None:
    assert goal_records([stored({"name": "plan", "description": "d", "schema": schema})]) == []


@pytest.mark.parametrize(
    "wire",
    [
        SUMMARY | {"summary_format_spec_prompt": ""},
        TRIAGE | {"label_vocabulary": {}},
        TRIAGE | {"label_vocabulary": {"a b": "x"}},
        TRIAGE | {"label_vocabulary": {"a": " "}},
        {"goal_type": "other"},
    ],
)
def test_a_wrong_goal_is_refused(wire: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        GOALS.validate_python([wire])
