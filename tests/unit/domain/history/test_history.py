"""History: the steps of the current agent's run."""

import pytest

from roboco.domain.history.state import AFTER_RESULTS
from tests.unit.domain.steps import Line, call, history_of, result, routed, steps_of

CALLS: Line = ("one", [call("tc_1")], routed("one"))
ANSWER: Line = ("tool_executor", [result("tc_1")])
GOES_ON: Line = ("one", "done", routed("one", AFTER_RESULTS))


@pytest.mark.parametrize(
    ("lines", "run"),
    [
        ([("user", "go")], []),
        ([("user", "go"), ("one", "hi", routed("one"))], [1]),
        ([("user", "go"), CALLS, ANSWER], [1, 2]),
        ([("user", "go"), CALLS, ANSWER, GOES_ON], [1, 2, 3]),
        ([("user", "go"), ("two", "x"), CALLS, ANSWER, GOES_ON], [2, 3, 4]),
        ([("user", "go"), ("one", "x", routed("one")), ("one", "y", routed("one"))], [2]),
        ([("user", "go"), ("one", "x", routed("one")), CALLS, ANSWER, GOES_ON], [2, 3, 4]),
        ([("user", "go"), CALLS, ANSWER, GOES_ON, ("user", "more")], []),
        ([("user", "go"), CALLS, ANSWER, ("user", "more"), ("one", "x", routed("one", "answers"))], [4]),
    ],
)
def test_the_current_run_begins_where_the_agent_took_over(lines: list[Line], run: list[int]) -> None:
    assert [step.seq for step in history_of(steps_of(*lines)).current_run] == run
