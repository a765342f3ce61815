"""TaskState: updates step by step and a fold over all steps give the same state."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.history.state import fold, state_after
from roboco.domain.history.step import TaskStep
from roboco.domain.history.task_state import TaskState
from tests.unit.domain.steps import START, call, histories, result, routed, steps_of


@given(histories(closed=False), st.integers(0, 30))
def test_a_state_kept_up_step_by_step_is_the_fold(steps: list[TaskStep], cut: int) -> None:
    state = fold(steps[:cut])
    for step in steps[cut:]:
        state = state_after(TaskState.model_validate_json(state.model_dump_json()), step)
    assert state == fold(steps)
    assert state.steps == len(steps)
    assert state.last_digest == steps[-1].digest
    assert state.started_at == START


def test_a_state_counts_steps_tokens_and_calls() -> None:
    steps = steps_of(
        ("user", "go", {"item_id": "i1", "agent": "a"}),
        ("a", [call("1")], routed("a", "named") | {"usage": {"tokens_in": 3, "tokens_out": 4}}),
        ("tool_executor", [result("1")], {"tools": {"look": {"calls": 1, "seconds": 0.5}}}),
        ("a", "x", routed("a", "results") | {"usage": {"tokens_in": 5, "cost": 0.25}}),
        ("user", "more", {"item_id": "i2"} | routed("USER", "a: no edge")),
        ("b", "y", routed("b", "a[0] -> b") | {"timings": {"duration_ms": 2000}}),
        ("b", "y", routed("b", "a[0] -> b")),
    )
    state = fold(steps)
    assert state.model_dump() == {
        "steps": 7,
        "imported": 0,
        "last_digest": steps[-1].digest,
        "last_agent": "b",
        "turns": {"a": 1, "b": 2},
        "rules": {"named": 1, "results": 1, "a: no edge": 1, "a[0] -> b": 2},
        "tokens_in": 8,
        "tokens_out": 4,
        "recent_item_ids": ("i1", "i2"),
        "started_at": START,
        "goals": (),
        "reminders": 0,
        "client_tools": {},
        "answer_form": {},
        "scope": None,
        "agents": {
            "a": {"steps": 2, "tokens_in": 8, "tokens_out": 4, "seconds": 0.0, "calls": 1, "cost": 0.25},
            "b": {"steps": 2, "tokens_in": 0, "tokens_out": 0, "seconds": 2.0, "calls": 0, "cost": 0.0},
        },
        "tools": {"look": {"steps": 0, "tokens_in": 0, "tokens_out": 0, "seconds": 0.5, "calls": 1, "cost": 0.0}},
        "calls": 1,
        "cost": 0.25,
        "unguarded": None,
        "refused": {},
        "limit_overrides": {},
        "limit": None,
        "limited_agent": "",
        "wrapped_up": False,
        "summarized_until": 0,
        "loop": {"open_calls": {}, "repeats": {}, "handoffs": 0, "agents": ()},
        "conversation": False,
        "interrupted": False,
        "retried_at": None,
        "day_usage": {"day": "2026-01-02", "tokens": 12, "cost_billionths": 250000000},
        "values": {},
        "outputs": {},
    }
    assert state.tokens == 12


@pytest.mark.parametrize(
    "metadata", [{"usage": None}, {"usage": {"tokens_in": "many"}}, {"routing": None}, {"item_id": 5}]
)
def test_invalid_metadata_is_ignored(metadata: dict[str, Any]) -> None:
    state = fold(steps_of(("user", "go"), ("a", "x", metadata)))
    assert (state.tokens, state.rules, state.recent_item_ids) == (0, {}, ())
