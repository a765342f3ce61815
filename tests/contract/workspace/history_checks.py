"""Writing a sample history, and checking every way of reading it."""

from roboco.domain.history.step import TaskStep, verify_chain
from roboco.ports.histories import Histories
from tests.contract.samples import TASK, make_chain


def append_steps(histories: Histories, count: int) -> list[TaskStep]:
    """Append this number of steps. Return them."""
    steps = make_chain(count)
    for step in steps:
        assert histories.append(TASK, step) == step
    return steps


def assert_history(histories: Histories, steps: list[TaskStep]) -> None:
    """Raise AssertionError unless the history is these steps, read from any start and line by line."""
    for start in sorted({0, len(steps) // 2, max(0, len(steps) - 1), len(steps)}):
        assert list(histories.read(TASK, start)) == steps[start:]
    lines = list(histories.lines(TASK))
    assert lines == [step.line().encode() for step in steps]
    assert verify_chain(lines) == len(steps)
