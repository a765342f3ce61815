"""StepsOnDemand: the same steps as the whole history, of which only the needed ones are read."""

from collections.abc import Iterator

import pytest

from roboco.domain.history.step import TaskStep
from roboco.domain.history.steps_on_demand import BLOCK_STEPS, StepsOnDemand
from roboco.errors import CorruptHistory
from tests.unit.domain.steps import steps_of

STEPS = steps_of(("user", "go"), *((f"agent{seq % 3}", str(seq)) for seq in range(1, 500)))


class Reader:
    """Reads the steps, and counts those that are taken."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, start: int) -> Iterator[TaskStep]:
        for step in STEPS[start:]:
            self.count += 1
            yield step


@pytest.mark.parametrize("index", [0, 63, 64, 499, -1, -500])
def test_a_step_costs_a_bounded_read_wherever_it_is(index: int) -> None:
    read = Reader()
    assert StepsOnDemand(read, len(STEPS))[index] == STEPS[index]
    assert read.count <= BLOCK_STEPS


def test_a_slice_has_the_same_steps_and_reads_each_block_once() -> None:
    for part in (slice(-5, None), slice(0, 0), slice(10, 400, 7)):
        assert list(StepsOnDemand(Reader(), len(STEPS))[part]) == STEPS[part]
    read = Reader()
    assert list(StepsOnDemand(read, len(STEPS))[360:400]) == STEPS[360:400]
    assert read.count <= BLOCK_STEPS
    assert list(StepsOnDemand(read, 400)) == STEPS[:400]


def test_a_history_that_has_lost_steps_is_corrupt() -> None:
    with pytest.raises(CorruptHistory, match="no step 600"):
        StepsOnDemand(Reader(), 700)[600]
