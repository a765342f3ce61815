"""The texts that Celery's tools show: sortable ids, and no text of users."""

import pytest
from celery.exceptions import TimeLimitExceeded

from roboco.broker import display
from roboco.broker.dispatcher import describe_work, message_id_of
from roboco.domain.ids import call_id_at
from roboco.errors import InvalidTeam, ModelError, TransientError, UsageError
from roboco.ports.assignment import ToolAssignment, TurnAssignment

CANARY = "canary7f3a"


def test_message_ids_sort_in_the_order_of_the_history() -> None:
    turns = [message_id_of(TurnAssignment("order-17", seq, 1, 1)) for seq in (1, 2, 10, 100, 1000)]
    call = message_id_of(ToolAssignment("order-17", 1, 1, call_id_at("order-17", 1, 0, "add", {}), 1))
    assert turns[0] < call < turns[2]
    assert sorted(turns) == turns


def test_a_description_names_the_agent_and_the_work() -> None:
    assert describe_work("writer", TurnAssignment("order-17", 3, 1, 1)) == "writer, order-17, step 3"
    assert describe_work("writer", TurnAssignment("order-17", 3, 1, 2)) == "writer, order-17, step 3, attempt 2"


def test_only_ids_and_flags_of_external_arguments_are_shown() -> None:
    arguments = {
        "task_id": "order-17",
        "team": {"name": CANARY},
        "prompt": CANARY,
        "context": {"key": CANARY},
        "agent": f"Dear {CANARY}, hello",
        "happened": True,
        f"{CANARY} as a name!": 1,
    }
    args, kwargs = display.redact_arguments(arguments, "gen17@shop-3")
    assert args == "order-17, from gen17@shop-3"
    assert kwargs == repr(
        {
            "task_id": "order-17",
            "happened": True,
            "agent": "(not shown)",
            "context": "(not shown)",
            "prompt": "(not shown)",
            "team": "(not shown)",
        }
    )
    assert display.redact_arguments({"prompt": CANARY}, f"{CANARY} says")[0] == "a new task"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UsageError(f"prompt: must be a text (found ['{CANARY}'])"), "UsageError: prompt: must be a text (found ...)"),
        (UsageError("no agent 'boss' in team 'desk'"), "UsageError: no agent 'boss' in team 'desk'"),
        (UsageError(f"agent 'say {CANARY}' is wrong"), "UsageError: agent ... is wrong"),
        (InvalidTeam("team", (f"name: is wrong (found '{CANARY}')",)), "InvalidTeam: team: name: is wrong (found ...)"),
        (ModelError("refused", f'said "{CANARY} it\'s"', False), "ModelError: said ..."),
        (TransientError("redis://me:pw@host is away"), "TransientError: redis://***@host is away"),
        (ValueError(CANARY), "ValueError: see the worker's log"),
        (TimeLimitExceeded(3.0), "TimeLimitExceeded(3.0,)"),
    ],
)
def test_errors_are_shown_without_their_quotes(error: Exception, expected: str) -> None:
    assert display.redact_error(error) == expected
