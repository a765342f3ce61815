"""RabbitMQ as broker of Compose: its container is killed, paused, or taken off its networks, during a load."""

from collections.abc import Iterator

import pytest

from tests.deployment.containers import faults
from tests.deployment.containers.deployment import Deployment, deployed
from tests.deployment.containers.room import IMAGES, Room

pytestmark = [pytest.mark.slow, pytest.mark.workers]


@pytest.fixture(scope="module")
def over_rabbitmq(room: Room) -> Iterator[Deployment]:
    """Yield a deployment whose broker is RabbitMQ."""
    images = room.load_or_build((*IMAGES, "rabbitmq"))
    with deployed(room, images, "compose.rabbitmq.yaml") as deployment:
        yield deployment


@pytest.mark.parametrize("fault", list(faults.broker_faults()), ids=str)
def test_a_fault_of_the_broker_loses_and_doubles_nothing(over_rabbitmq: Deployment, fault: faults.Fault) -> None:
    assert faults.run(over_rabbitmq, fault)["findings"] == []
