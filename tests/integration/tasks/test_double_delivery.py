"""The journeys with every Celery message delivered twice."""

from collections.abc import Iterator

import pytest

from tests.support.double_delivery import send_twice
from tests.support.journeys import JOURNEYS, StackJourney, answer, shape
from tests.support.stack import LONG_LEASE, Stack

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def double_delivery_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(
        tmp_path_factory.mktemp("doubled"), modules="tests.support.double_delivery", lease_seconds=LONG_LEASE
    ) as stack:
        stack.model.script(answer)
        send_twice(stack.orchestrator._producer)
        yield stack


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_journey_with_every_message_twice_makes_each_turn_once(
    double_delivery_stack: Stack, journey: StackJourney
) -> None:
    asked = len(double_delivery_stack.model.requests)
    task = double_delivery_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.final_status
    assert shape(task.history()) == journey.expected
    turns = sum(1 for step in task.history() if step.by_agent)
    assert len(double_delivery_stack.model.requests) - asked == turns, "each turn is made once"
    assert double_delivery_stack.model.violations == []
