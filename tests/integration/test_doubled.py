"""The same journeys with every Celery message delivered twice."""

from collections.abc import Iterator

import pytest

from tests.support.double_delivery import send_twice
from tests.support.journeys import JOURNEYS, StackJourney, answer, shape
from tests.support.stack import LONG_LEASE, Stack

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def doubling_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(
        tmp_path_factory.mktemp("doubled"), modules="tests.support.double_delivery", lease_seconds=LONG_LEASE
    ) as stack:
        stack.model.script(answer)
        send_twice(stack.orchestrator._producer)
        yield stack


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_every_message_twice(doubling_stack: Stack, journey: StackJourney) -> None:
    asked = len(doubling_stack.model.requests)
    task = doubling_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.final_status
    assert shape(task.history()) == journey.expected
    turns = sum(1 for step in task.history() if step.by_agent)
    assert len(doubling_stack.model.requests) - asked == turns, "a doubled message made a turn twice"
    assert doubling_stack.model.violations == []
